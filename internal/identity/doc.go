// Package identity holds who is who: keys on disk, the two certificate
// authorities of a server, enrolment tokens, TLS configurations, and the chain
// of events that each host signs.
//
// A host is named by the URI spiffe://<fleet>/host/<name> in a client
// certificate, and by nothing else. Hosts and servers have separate authorities
// with separate purposes: a certificate of one kind never passes for the other.
package identity
