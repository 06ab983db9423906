// nearfield-server.
#include "nearfield/engine/engine.h"
#include "server/run_server.h"

int main(int argc, char** argv) {
  return nearfield::server::RunServer(argc, argv, nearfield::Engine::Create);
}
