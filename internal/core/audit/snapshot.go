package audit

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/oracle"
)

// saved is a log as plain values.
type saved struct {
	Seq        uint64
	Checkpoint uint64
	Gaps       map[string]bool
	Suspects   map[string]bool
	Grants     []savedGrant // of each host in order
	Facts      json.RawMessage
	Nodes      map[string]*auditedNode `json:",omitempty"`
}

type savedGrant struct {
	oracle.Grant
	Outcome host.Phase `json:",omitempty"`
}

// Snapshot encodes all that is known of the events so far, with the last grants of each
// host, as Forget has it. The same events give the same bytes.
func (l *Log) Snapshot() (json.RawMessage, error) {
	out := saved{Seq: l.seq, Checkpoint: l.checkpoint, Gaps: l.gaps, Suspects: l.suspects, Nodes: l.nodes}
	for _, name := range slices.Sorted(maps.Keys(l.given)) {
		for _, id := range l.lastOf(name) {
			if g := l.grants[id]; g != nil {
				out.Grants = append(out.Grants, savedGrant{*g, l.outcomes[id]})
			}
		}
	}
	var err error
	if out.Facts, err = l.Facts.Snapshot(); err != nil {
		return nil, err
	}
	return json.Marshal(out)
}

// Restore returns a checker that goes on behind the events of a snapshot.
func Restore(raw []byte, docs oracle.Documents) (*Log, error) {
	var in saved
	if err := json.Unmarshal(raw, &in); err != nil {
		return nil, fmt.Errorf("the facts of an audit: %w", err)
	}
	l := NewLog(docs)
	facts, err := oracle.Restore(in.Facts, docs)
	if err != nil {
		return nil, fmt.Errorf("the facts of an audit: %w", err)
	}
	l.Facts, l.seq, l.checkpoint = facts, in.Seq, in.Checkpoint
	maps.Copy(l.gaps, in.Gaps)
	maps.Copy(l.suspects, in.Suspects)
	for name, n := range in.Nodes { // order-free: each by itself
		if n.Episodes == nil {
			n.Episodes = map[string]string{}
		}
		l.nodes[name] = n
	}
	for i := range in.Grants {
		g := &in.Grants[i].Grant
		if open := l.Host(g.Host).Grant; open != nil && open.ID == g.ID {
			g = open // what is read of the one counts for the other
		}
		l.grants[g.ID] = g
		l.given[g.Host] = append(l.given[g.Host], g.ID)
		if o := in.Grants[i].Outcome; o != "" {
			l.outcomes[g.ID] = o
		}
	}
	return l, nil
}

// Seq is the sequence of the last event.
func (l *Log) Seq() uint64 { return l.seq }
