package logverify

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/identity"
)

// chained is the chain of one host's events since it enrolled.
type chained struct {
	incarnation uint64
	key         []byte
	chain       identity.Chain
	signed      uint64 // up to where the host signed
}

// host follows the chain of the host that a record is of.
func (c *checker) host(r *event.Record, ev event.Event) {
	h := c.hosts[r.Host()]
	if r.HostSeq != 0 {
		if h == nil || r.Incarnation != h.incarnation || r.HostSeq != h.chain.Seq+1 {
			c.found(r.Seq, "host-chain", fmt.Errorf("event %d/%d of host %s does not follow in its chain", r.Incarnation, r.HostSeq, r.Host()))
			return
		}
		h.chain = h.chain.Next(r.At, r.Type, r.Body)
		return
	}
	switch ev := ev.(type) {
	case event.HostEnrolled:
		if err := c.signed.enrolled(r.Host(), r.At, ev); err != nil {
			c.found(r.Seq, "signature", err)
		}
		if h == nil {
			c.report.Hosts++
		} else {
			c.unsigned(h)
		}
		c.hosts[r.Host()] = &chained{incarnation: ev.Incarnation, key: ev.EventKey,
			chain: identity.Genesis(c.signed.fleet, r.Host(), ev.Incarnation)}
	case event.HostHead:
		if err := c.head(r.Host(), h, ev); err != nil {
			c.found(r.Seq, "host-chain", err)
		}
	}
}

// head checks that a host signed exactly the events that the log has of it.
func (c *checker) head(name string, h *chained, ev event.HostHead) error {
	switch {
	case h == nil:
		return fmt.Errorf("host %s never enrolled", name)
	case ev.Incarnation != h.incarnation || ev.Seq != h.chain.Seq:
		return fmt.Errorf("host %s signed %d/%d; the log has its events up to %d/%d", name, ev.Incarnation, ev.Seq, h.incarnation, h.chain.Seq)
	case !bytes.Equal(ev.Hash, h.chain.Hash[:]):
		return fmt.Errorf("host %s signed other events up to %d than the log has", name, ev.Seq)
	}
	if err := identity.VerifyHead(h.key, c.signed.fleet, name, h.incarnation, h.chain, ev.Signature); err != nil {
		return fmt.Errorf("host %s: %w", name, err)
	}
	c.report.HostEvents += int(h.chain.Seq - h.signed)
	h.signed = h.chain.Seq
	return nil
}

// ends counts what no host has signed yet: a batch and its head are one append.
func (c *checker) ends() {
	for _, name := range slices.Sorted(maps.Keys(c.hosts)) {
		h := c.hosts[name]
		if c.unsigned(h); h.chain.Seq > h.signed {
			c.found(c.report.Head.Seq, "host-chain", fmt.Errorf("host %s signed its events up to %d, and the log has %d", name, h.signed, h.chain.Seq))
		}
	}
}

func (c *checker) unsigned(h *chained) { c.report.Unsigned += int(h.chain.Seq - h.signed) }

var errNoRoot = errors.New("no root was trusted before it")
