#include "cli/program.h"

int main(int count, char** words) {
  return rhizome::program_main({words + 1, words + count});
}
