// The program around which the link check of every layer is built.
int main() {
  return 0;
}
