// Package dockertest runs real container engines for tests: dockerd of the
// distribution, in a world of its own. A test binary that uses it declares it in
// its TestMain:
//
//	func TestMain(m *testing.M) { dockertest.Main(m) }
//
// Main starts the binary once more in new process, mount and network
// namespaces. Inside there is one network with only a loopback device, an empty
// /run, and no process of the machine: engines of packages tested at the same
// time do not meet, bridges and firewall rules go with the namespace, nothing
// can reach the engine of the machine, and when the test process dies, however,
// the kernel ends every engine and container with it. There is no way to the
// internet, so images come from busybox-static and from a registry of [Registry].
package dockertest
