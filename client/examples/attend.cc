// Computes self-attention over two tokens with three features on a server: attend [TARGET] [WEIGHT_SET].
#include <cstdio>

#include "client/attention_client.h"

int main(int argc, char** argv) {
  auto client = attention::Client::Connect(argc > 1 ? argv[1] : "localhost:50051");
  if (!client.ok()) return std::fprintf(stderr, "%s\n", client.status().ToString().c_str()), 1;

  const std::vector<int64_t> shape = {1, 2, 3};  // [batch, q_length, in_features]
  const std::vector<float> numbers = {1, 2, 3, 4, 5, 6};
  const auto reply =
      client->Attend({.weight_set = argc > 2 ? argv[2] : "demo/ones", .inputs_q = attention::Float32(numbers, shape)},
                     {.timeout = std::chrono::seconds(10)});
  if (!reply.ok()) return std::fprintf(stderr, "%s\n", reply.status().ToString().c_str()), 1;

  for (const float value : reply->output.Floats()) std::printf("%.7g\n", value);
}
