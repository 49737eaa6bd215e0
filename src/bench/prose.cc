#include "bench/prose.h"

namespace rhizome::bench {
namespace {

constexpr std::string_view kProse = R"(The ferry left an hour late that morning, and nobody minded. Fog lay on the
water so thick that the far bank might as well have been another country, and the few people who stood on the deck
talked quietly, as one does in a room where somebody is asleep. There was a teacher with a box of maps on her knees,
two brothers who had sold a horse the day before and could not agree on what it had been worth, and an old man with a
bicycle who told anyone who would listen that he had crossed here every Tuesday for thirty-one years.

"You will see," he said, "when the bell rings from the chapel, the fog goes up like a curtain." The bell rang, and the
fog stayed where it was. The brothers laughed, but the old man only shrugged and said that the bell was late too.

What the teacher had in her box were not maps of the river as it is now. They were copies of a survey made in 1843,
when the channel still ran on the other side of the long island and the village had a harbour. She had found them in a
cupboard of the school, under a pile of attendance lists, and she meant to show them to a friend at the university who
knew about such things. On the third sheet somebody had drawn, in red ink and much later, a line from the church to a
point in the middle of the water, and beside it a date without a year: the ninth of October.

She had asked in the village, of course. The baker thought that it marked a boundary. The priest thought that it had
to do with the flood, although the flood had been in spring. The woman who kept the inn looked at the sheet for a long
time and then said that her grandmother had spoken of a bell that was lost when it was brought over on a raft, and
that children used to be told they could hear it in a dry summer. Nobody had ever looked for it, because everybody
knew that it was only a story.

Rivers move, which is easy to forget when one looks at them from a bridge. The water on the outside of a bend is
faster and takes earth from the bank; on the inside it is slower and lets fall what it carries. So each bend grows
wider year after year, until two of them meet and the river finds a shorter way. What remains of the old bed becomes a
lake in the shape of a half moon, which fills slowly with mud and reeds, then with willows, and after two or three
hundred years with fields whose owners wonder why one corner of them is always wet. Engineers have tried to stop this
with stones and walls, and for a while they can. But a wall that holds the water in one place only sends it somewhere
else with more force, and the bill arrives a few miles further down.

The survey of 1843 was made for exactly that reason. A merchant wanted to build a warehouse at the harbour and asked
how long the channel would stay where it was. The surveyor, a careful person named Aldous Wray, measured the depth at
four hundred places, from a small boat, with a lead on a line. He wrote down every number with the hour at which it
was taken and the height of the water at the mill. In his report he said that the harbour would be dry within forty
years. The merchant thanked him, paid him, and built the warehouse all the same. It is a barn now, half a mile from
the nearest boat.

By ten o'clock the ferry was in the middle of the stream, and the engine, which had been coughing for some time,
stopped. The ferryman went down to look at it. For a few minutes there was no sound but the water, and then, from
somewhere ahead, a dog barking, which meant that the bank could not be far. The younger of the brothers found a pole.
The teacher held the box tighter. "Thirty-one years," said the old man, "and this is the first time." It was not clear
whether he was pleased or offended.

How does one decide what to keep? A library that keeps every book needs more shelves each year; a library that keeps
only what is asked for today will be missing what is asked for tomorrow. Most people who have had to choose end up
with some rule of thumb. They keep what was used lately, because what was used lately is likely to be used again. They
keep what would be hard to get a second time. And they throw away, with some regret, whatever is large and dull and
easily replaced. The rule is not wrong, but it has a weakness that anyone who has moved house will know: the things
that were used once, yesterday, for no good reason, push out the things that are used every winter.

There are better rules, and they are not much harder. One can keep a note of what was thrown away, for example, which
takes very little room. If something on that list is asked for again, it was a mistake to let it go, and next time it
is given a better place. One can ask how much work it would be to make a thing anew, and compare that with the room it
takes. One can watch for patterns: a long list of items each used exactly once is probably somebody cleaning up, and
should not disturb the rest. None of this needs to know the future. It only needs to be honest about the past.

1. Write down what came in, when, and how large it was.
2. Before anything is removed, ask whether somebody is still holding it.
3. Remove the children before the parents, because a child without its parent cannot be found.
4. When in doubt, do the work again; a slow answer is better than a wrong one.

The engine started again at the fourth attempt. The ferryman came up, wiped his hands, and said that it had been water
in the fuel, as if the river had wanted to have a look inside. A little wind had come up. First there was a pale spot
where the sun had to be, then the tops of the poplars, and then, quite suddenly, the whole bank with its landing
stage, three cows, and a boy on a fence who waved as though he had been waiting for nobody else. The old man rang the
bell of his bicycle. "There," he said. "What did I tell you?"

At the university the friend spread the sheets on a table and put a lamp beside them. He was a tall man who had the
habit of saying nothing until he had seen everything twice. When he came to the red line he fetched a ruler, then a
modern map at the same scale, and laid one on top of the other against the window. The point in the middle of the
water was no longer in the water at all. It lay in a meadow south of the island, about sixty yards from the road, in
the wet corner of a field that belonged, as they found out that afternoon by telephone, to the two brothers with the
horse.

"It may be nothing," he said. "It may be a cross that a bored clerk made while he was thinking of his lunch. But
someone took the trouble to measure an angle from the church, and one does not measure an angle for nothing." He
copied the numbers on a card and gave it to her. The angle was 214 degrees; the distance, in the units of the time, 38
chains and 15 links, which is a little more than 767 metres. She wrote the date below it, and a question mark where
the year should have been.

They went there on a Saturday with spades, a thermos flask and a borrowed instrument that hummed when it was near
iron. A bell is not iron, as the friend pointed out, but its clapper is, and so are the bands of a raft. The brothers
stood by with their hands in their pockets. Each had told the other that he did not believe a word of it, and each had
come an hour early. It had rained in the night, and the wet corner was wetter than ever. For most of the morning the
instrument hummed at horseshoes, at a length of chain, and once, with great conviction, at the friend's own boots.
Then, at twenty past eleven, close to an alder that stood by itself, it began to hum and did not stop.

What they found there was not a bell. It was a box of oak, no longer than an arm, closed with iron and sealed with
tar, and when it was opened at last, in a dry room, under the eyes of more people than the room could hold, there was
a book in it: four hundred depths, each with its hour, in the small clear hand of Aldous Wray, and on the last page a
sentence that was not in the report. "The channel will come back," he had written. "Not to the harbour, and not in my
time; but water remembers where it has been, and whoever builds on its bed has only borrowed it."

That winter the village argued about it as villages do. Some wanted a sign at the road, some wanted the field left in
peace, and the innkeeper, who had been right about the raft if not about the bell, wanted to be asked. A newspaper
sent a young woman who took photographs of the alder from every side and spelled the surveyor's name in three
different ways. In the end the book went to the library in the city, on the condition that the school would get a good
copy, and the brothers were paid for the hole in their field, which they divided so exactly that it took them until
Easter.

The teacher reads from the copy once a year, in October, on the ninth. She begins with the depths, because children
like to guess: how deep at the mill, how deep at the bend, how deep where the church is now? They are always wrong in
the same direction. Nobody expects a river to have been so shallow, or a quiet man with a boat to have been so
patient, and when she comes to the last page there is usually somebody who asks whether the water has come back yet.
"Not yet," she says, "but look out of the window.")";

}  // namespace

std::string_view prose() {
  return kProse;
}

}  // namespace rhizome::bench
