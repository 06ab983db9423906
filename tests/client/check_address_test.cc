#include "client/cpp/check_address.h"

#include <string>

#include "tests/client/prelude.h"

namespace nearfield::client {
namespace {

// gRPC uses such a port modulo 65536: 117636 connected to the process that listened at 52100.
TEST(CheckAddress, APortBeyondTheLimitIsRefusedAndNotWrapped) {
  for (const std::string port : {"0", "00", "65536", "117636", "4294967297", "99999999999999999999",
                                 "-13420", "+80", "5005l", " 80"}) {
    for (const std::string host :
         {"127.0.0.1", "localhost", "[::1]", "dns:localhost", "dns:///localhost", "ipv4:127.0.0.1",
          "dns://8.8.8.8:53/localhost", "ipv6:[::1]", "ipv4:127.0.0.1:1,127.0.0.2", ""}) {
      EXPECT_THAT(CheckAddress(host + ":" + port),
                  StatusIs(kInvalidArgument, "address: port = " + port + ", must be 1 .. 65535"))
          << host;
    }
  }
  EXPECT_THAT(CheckAddress("ipv4:127.0.0.1:65536,127.0.0.1:1"), StatusIs(kInvalidArgument));
  EXPECT_THAT(CheckAddress(""), StatusIs(kInvalidArgument));
}

// Regression: gRPC looked for a host called 52200, and the advice was to listen on it.
TEST(CheckAddress, APortAloneIsNotAnAddress) {
  EXPECT_THAT(CheckAddress("52200"),
              StatusIs(kInvalidArgument,
                       "address: 52200 has no host; give host:port, such as 127.0.0.1:52200"));
}

// Regression: gRPC looked for a host called http://127.0.0.1:50051, or tried port 443.
TEST(CheckAddress, AnAddressWithoutAPortOrWithASchemeOrAPathIsRefused) {
  for (const std::string address :
       {"http://127.0.0.1:50051", "http://a-host", "127.0.0.1:50051/", "a-host:50051/path",
        "127.0.0.1", "a-host.example.org", "localhost:", "[::1]", "::1", "::1:50051", "fe80::99999",
        "dns:///localhost", "dns:99999", "dns://8.8.8.8:53", "ipv4:127.0.0.1:1,127.0.0.2",
        "ipv4:127.0.0.1,127.0.0.2:1", "xds:///a-service"}) {
    EXPECT_THAT(CheckAddress(address),
                StatusIs(kInvalidArgument,
                         "address: " + address + "; give host:port, such as 127.0.0.1:50051"))
        << address;
  }
}

TEST(CheckAddress, EveryOtherFormIsLeftToGrpc) {
  for (const std::string address :
       {"127.0.0.1:1", "127.0.0.1:50051", "localhost:65535", "localhost:0080", "localhost:http",
        "[::1]:50051", "unix:/tmp/a:99999", "unix:99999", "unix:///tmp/a",
        "unix-abstract:name:99999", "vsock:2:99999999", "dns:///localhost:50051",
        "dns://8.8.8.8:53/localhost:50051", "ipv4:127.0.0.1:1,127.0.0.2:2", "ipv6:[::1]:50051",
        "ipv6:%5B::1%5D:50051"}) {
    EXPECT_OK(CheckAddress(address)) << address;
  }
}

}  // namespace
}  // namespace nearfield::client
