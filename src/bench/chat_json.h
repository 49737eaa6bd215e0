// What is sent to the server and what it answers, as text.
//
// Thread-safety: pure functions. Text that is no JSON leaves the answer's `error` set.
#pragma once

#include <string>
#include <string_view>

#include "bench/http_chat.h"

namespace rhizome::bench {

std::string chat_request_body(const ChatRequest& request);

// One `data:` line of a stream, without that prefix. True when it carries text or the end of the answer.
bool read_stream_event(std::string_view event, ChatAnswer& answer);

// A whole answer that was not streamed.
void read_whole_answer(const std::string& body, ChatAnswer& answer);

// What a server said when it refused, as one short line.
std::string refusal_text(int http_status, const std::string& body);

// The value of `"key":` as it was printed, from its first bracket to the one that closes it; empty without one.
std::string printed_value(std::string_view json, std::string_view key);

}  // namespace rhizome::bench
