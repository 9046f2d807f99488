// Package shellsim plays fleets as they ship: the real server and the real agents,
// with their stores, their protocol and TLS, in one bubble of package
// testing/synctest. Time, the network between them and the disks below them are
// the schedule's: one seed draws the fleet, what operators do and what goes wrong,
// and afterwards everything has to come to rest and every invariant has to hold.
// Package sim plays the same reducers a hundred times faster, on a network and
// disks that are made up; here it is seen that what surrounds them keeps its word.
//
// All of it is tests. A seed draws the same schedule each time; the order in which
// goroutines run at one instant is the runtime's.
package shellsim
