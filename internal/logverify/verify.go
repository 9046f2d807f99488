// Package logverify checks an exported log offline, with nothing but the pinned root:
// the hash chain of the records, the signed documents that they name, the chains
// that hosts sign, and the invariants of rollouts, promotion evidence among them.
// The first bad record is named.
package logverify

import (
	"context"
	"errors"
	"fmt"

	"github.com/steadyfleet/steady/internal/control/documents"
	"github.com/steadyfleet/steady/internal/core/audit"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/replay"
	"github.com/steadyfleet/steady/internal/store"
)

// shelf is the documents of a history.
type shelf map[digest.Digest][]byte

// Blob returns bytes by digest, which it checks.
func (s shelf) Blob(_ context.Context, d digest.Digest) ([]byte, error) {
	b, ok := s[d]
	switch {
	case !ok:
		return nil, fmt.Errorf("the export lacks document %s", d.Short())
	case digest.Of(b) != d:
		return nil, fmt.Errorf("document %s was altered", d.Short())
	}
	return b, nil
}

// Anchor is what the one who checks knows from elsewhere.
type Anchor struct {
	// Root is the digest of the first root's payload, as tokens carry it; empty
	// takes the root that the log begins with at its word.
	Root digest.Digest
	// Head, unless zero, is an end of the log that was seen before: the log must
	// still lead through it.
	Head store.Head
}

// Finding is what does not hold, and at which record. Check is "chain",
// "signature", "host-chain" or the name of an invariant.
type Finding struct {
	Seq     uint64 `json:"seq"`
	Check   string `json:"check"`
	Message string `json:"message"`
	Host    string `json:"host,omitempty"` // in Report.Contradictions: of a host
	Node    string `json:"node,omitempty"` // or of a node
	// Disputed says that it takes the server's records to show what the host
	// contradicts; otherwise what it signed proves it alone.
	Disputed bool `json:"disputed,omitempty"`
}

// Report is what came of a check. Findings are in the order of the log; a broken
// chain ends it, since nothing behind it is the log any more.
type Report struct {
	Head       store.Head
	Pruned     uint64 // the record behind which the log begins: what lies before was not checked
	Roots      int    // of the chain of roots, each signed by the one before
	Releases   int
	Overrides  int
	Hosts      int
	HostEvents int // below a head that their host signed
	Unsigned   int // at the end of hosts' chains, not below a signed head yet
	Promotions int // whose evidence was counted again
	Findings   []Finding
	// Contradictions are what hosts and nodes reported against themselves or against the
	// records, the first of each: all else holds, and either they lie or records are missing.
	Contradictions []Finding
}

// maxFindings bounds what is kept.
const maxFindings = 100

// checker carries one Verify.
type checker struct {
	report *Report
	signed *signed
	hosts  map[string]*chained
	told   map[string]bool // whose are in Contradictions
	log    *audit.Log
	lib    *documents.Library

	history *replay.History
	joined  bool // a record names the checkpoint that the log begins with
}

// Documents gives the documents of a history.
func Documents(h *replay.History) Blobs { return shelf(h.Blobs) }

// Verify checks a whole history with its documents. The error says that it could
// not be checked at all.
func Verify(t *replay.History, a Anchor) (*Report, error) {
	if len(t.Records) == 0 {
		return nil, errors.New("the export contains no record")
	}
	blobs := shelf(t.Blobs)
	lib := documents.New(blobs)
	c := &checker{report: &Report{Findings: []Finding{}, Contradictions: []Finding{}}, told: map[string]bool{}, hosts: map[string]*chained{},
		signed: &signed{blobs: blobs, pinned: a.Root}, log: audit.NewLog(lib), lib: lib, history: t}
	if t.Begins != nil {
		if err := c.begin(Begin(t)); err != nil {
			return nil, fmt.Errorf("the checkpoint that the log begins with: %w", err)
		}
		if at := c.report.Head; a.Head.Seq == at.Seq && a.Head.Hash != at.Hash {
			c.found(at.Seq, "chain", errors.New("its hash is not the one that was seen before: the log was rewritten up to here"))
		}
	}
	for i := range t.Records {
		r := &t.Records[i]
		head, err := store.Verify(c.report.Head, t.Records[i:i+1])
		if broken := (*store.ChainError)(nil); errors.As(err, &broken) {
			c.found(broken.Seq, "chain", errors.New(broken.Reason))
			break
		}
		c.report.Head = head
		if head.Seq == a.Head.Seq && head.Hash != a.Head.Hash {
			c.found(r.Seq, "chain", errors.New("its hash is not the one that was seen before: the log was rewritten up to here"))
			break
		}
		c.record(r)
	}
	if a.Head.Seq > c.report.Head.Seq && len(c.report.Findings) == 0 {
		c.found(c.report.Head.Seq, "chain", fmt.Errorf("the log ends here and was seen to reach record %d before", a.Head.Seq))
	}
	if t.Begins != nil && !c.joined {
		c.found(t.Begins.Seq, "chain", errors.New("no record names the checkpoint that the log begins with"))
	}
	c.ends()
	return c.report, nil
}

func (c *checker) found(seq uint64, check string, err error) {
	if err != nil && len(c.report.Findings) < maxFindings {
		c.report.Findings = append(c.report.Findings, Finding{Seq: seq, Check: check, Message: err.Error()})
	}
}

// record checks what one record says.
func (c *checker) record(r *event.Record) {
	ev, err := event.Decode(r.Entry)
	if err != nil {
		c.found(r.Seq, "chain", err)
		return
	}
	switch ev := ev.(type) {
	case event.RootTrusted:
		c.found(r.Seq, "signature", c.signed.root(ev))
		c.report.Roots++
	case event.ReleaseAccepted:
		c.lib.Learn(ev)
		c.found(r.Seq, "signature", c.signed.release(ev))
		c.report.Releases++
	case event.TimestampAccepted:
		c.found(r.Seq, "signature", c.signed.timestamp(ev))
	case event.NodeRegistered:
		c.found(r.Seq, "signature", c.signed.registered(r.At, ev))
	case event.OverrideAccepted:
		c.found(r.Seq, "signature", c.signed.override(ev))
		c.report.Overrides++
	case event.LogCheckpoint:
		c.found(r.Seq, "chain", c.checkpoint(ev))
	case event.WavePromoted:
		c.report.Promotions++
	}
	c.host(r, ev)
	for _, v := range c.log.ObserveEvent(r.Seq, r.Entry, ev) {
		if whose := v.Whose(); whose != "" {
			if !c.told[whose] {
				c.told[whose] = true
				c.report.Contradictions = append(c.report.Contradictions, Finding{Seq: r.Seq, Check: v.Invariant, Message: v.Message, Host: v.Host, Node: v.Node, Disputed: v.Disputed})
			}
			continue
		}
		c.found(r.Seq, v.Invariant, errors.New(v.Message))
	}
}
