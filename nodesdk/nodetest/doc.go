// Package nodetest is the conformance suite of drivers. Run drives a driver through the real
// client of package nodesdk, over real TLS and WebSockets on this machine, against the
// device that its author starts, and prints which cases passed and which do not apply.
package nodetest
