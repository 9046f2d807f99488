package server

import (
	"fmt"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/drift"
	"github.com/steadyfleet/steady/internal/core/event"
)

// NodeReport is what the connection of a node reports. Then, if not nil, is called with the state after it.
type NodeReport struct {
	drift.Input
	Then func(*drift.State)
}

// nodeConnects is how often one node may begin a session, over which each costs a comparison.
var nodeConnects = RateLimit{Burst: 30, Tokens: 1, Per: 5 * clock.Second}

// nodeCompares is how much of one node's objects is read and compared, in bytes: two configurations of the largest size
// at once, and a hundredth of what one processor can.
var nodeCompares = RateLimit{Burst: 16 << 20, Tokens: 64 << 10, Per: clock.Second}

// nodeRefusals is how often the log has that a node was refused: what it says last counts, and it may change that at will.
var nodeRefusals = RateLimit{Burst: 10, Tokens: 1, Per: clock.Minute}

// nodeShare is what one node has used of what all share, over its connections.
type nodeShare struct {
	log, connects, compares, refusals RateBucket
	limitedAt                         clock.Instant // when it was said last that it was put off
}

// shareOf is the share of a node that there is.
func (s *Server) shareOf(name string) *nodeShare {
	share := s.shares[name]
	if share == nil {
		share = &nodeShare{}
		s.shares[name] = share
	}
	return share
}

// afford refuses a report that costs more to decide about than the share of its node has left.
func (s *Server) afford(in drift.Input, t *Turn) error {
	cost := s.Nodes.Cost(in)
	if cost == 0 {
		return nil
	}
	name := drift.About(in)
	share := s.shareOf(name)
	if wait := share.compares.Spend(nodeCompares, cost, t.Now); wait > 0 {
		return share.limit(t, name, wait, "changes more than is compared of one node, %d bytes a second after a burst; the %d bytes that it reports now are compared in %s", nodeCompares.Tokens, cost, wait)
	}
	return nil
}

// limit refuses what is above a share.
func (n *nodeShare) limit(t *Turn, name string, wait clock.Duration, format string, a ...any) error {
	no := &drift.Refusal{Code: drift.CodeTooMuch, After: wait, Message: fmt.Sprintf("node "+name+" "+format, a...)}
	news := n.limitedAt == 0 || t.Now.Sub(n.limitedAt) >= clock.Hour
	if news {
		n.limitedAt = t.Now
	}
	t.Effects = append(t.Effects, NodeLimited{name, no.Message, news})
	return no
}

func (in NodeReport) step(s *Server, t *Turn) error {
	if err := s.afford(in.Input, t); err != nil {
		return err
	}
	var entries []event.Entry
	events, err := s.Nodes.StepIf(in.Input, t.Now, func(events []event.OfNodes) (err error) {
		if entries, err = nodeEntries(events, t.Now); err != nil {
			return err
		}
		return s.charge(in.Input, Weight(entries), t)
	})
	if err != nil {
		return err
	}
	more, err := nodeEntries(events[len(entries):], t.Now) // which the server decided after it
	entries = append(entries, more...)
	if err := t.add(entries, err); err != nil {
		return err
	}
	if in.Then != nil {
		in.Then(s.Nodes)
	}
	attended, err := s.attend(entries, t.Now)
	if share := s.shares[drift.About(in.Input)]; share != nil {
		share.log.Charge(s.cfg.HostLog, Weight(attended), t.Now)
	}
	return t.add(attended, err)
}

// charge takes what a report adds to the log from the share of its node, or refuses it. That a node is gone is news
// of the server, which is never refused.
func (s *Server) charge(in drift.Input, bytes int64, t *Turn) error {
	name, now := drift.About(in), t.Now
	if bytes == 0 && s.shares[name] == nil {
		return nil
	}
	share := s.shareOf(name)
	switch in := in.(type) {
	case drift.Refused, drift.Limited:
		if bytes == 0 {
			return nil
		}
		if wait := share.refusals.Spend(nodeRefusals, 1, now); wait > 0 {
			return share.limit(t, name, wait, "was refused more often than the log has; the next time is logged in %s", wait)
		}
		share.log.Charge(s.cfg.HostLog, bytes, now)
		return nil
	case drift.Disconnected, drift.Registered:
		share.log.Charge(s.cfg.HostLog, bytes, now)
		return nil
	case drift.Connected:
		if wait := share.connects.Spend(nodeConnects, 1, now); wait > 0 {
			return share.limit(t, name, wait, "connects more often than once in %s; it is let in again in %s", nodeConnects.Per, wait)
		}
	case drift.Answer: // what it was sent, an operator asked for
		bytes = max(0, bytes-s.asked(name, in))
	}
	if wait := share.log.Spend(s.cfg.HostLog, bytes, now); wait > 0 {
		return share.limit(t, name, wait, "has used its share of the log, %d bytes a second after a burst; the %d bytes that it reports now are accepted in %s", s.cfg.HostLog.Tokens, bytes, wait)
	}
	return nil
}

// asked is what the answer to an operation that was applied may take at the cost of who asked for it, in bytes.
func (s *Server) asked(name string, in drift.Answer) int64 {
	n := s.Nodes.Nodes[name]
	if n == nil || n.Flight == nil || in.Outcome != drift.Applied && in.Outcome != drift.Already {
		return 0
	}
	return 2*eventWeight + int64(len(n.Flight.Config))
}
