package api_test

import (
	"bytes"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/control/documents"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/logverify"
	"github.com/steadyfleet/steady/internal/replay"
	"github.com/steadyfleet/steady/internal/store"
	"github.com/steadyfleet/steady/internal/store/embedded"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/internal/trust"
)

// exported lets a fleet live a little and returns the trail of its server.
func exported(t *testing.T) (*replay.History, logverify.Anchor) {
	w := newWorld(t)
	w.release("r1", plan{hosts: 3, content: "one"})
	stop := runAgents(t, w.agents(3)...)
	w.until("r1 to converge", func() bool { return w.standing("stable@r1") == "done" })
	w.release("r2", plan{hosts: 3, content: "two", waves: twoWaves,
		more: "disruptionBudgets: [{selector: {all: true}, maxInFlight: 2}]\n"})
	w.until("r2 to converge", func() bool { return w.standing("stable@r2") == "done" })
	stop()
	w.halt()
	s := testkit.Value(embedded.Open(t.Context(), filepath.Join(w.opts.DataDir, "store"), embedded.Options{}))(t)
	defer func() { testkit.Must(t, s.Close()) }()
	return w.export(s)
}

// export is the trail of a store, and what it has to begin with.
func (w *world) export(s store.Store) (*replay.History, logverify.Anchor) {
	t := w.t
	t.Helper()
	var stream bytes.Buffer
	library := documents.New(s)
	out := testkit.Value(replay.NewHistoryWriter(&stream, library))(t)
	begin := testkit.Value(documents.Begin(t.Context(), s))(t)
	testkit.Must(t, logverify.Export(t.Context(), out, begin, library))
	testkit.Value(store.Replay(t.Context(), s, begin.Through, func(records []event.Record) error { return out.Write(records) }))(t)
	testkit.Must(t, out.Close())
	tr := testkit.Value(replay.ReadHistory(&stream, nil))(t)
	env := testkit.Value(trust.ParseEnvelope(w.root))(t)
	return tr, logverify.Anchor{Root: digest.Of(env.Payload)}
}

// rechained computes every hash and sequence anew, as one who rewrote the log
// would.
func rechained(records []event.Record) []event.Record {
	out := make([]event.Record, 0, len(records))
	var head store.Head
	for i := range records {
		r := store.Chain(head, max(head.Term, records[i].Term), []event.Entry{records[i].Entry})[0]
		out = append(out, r)
		head = store.Head{Seq: r.Seq, Term: r.Term, Hash: r.Hash}
	}
	return out
}

// lastOf finds the last record of a kind for a host.
func lastOf(records []event.Record, host string, kind event.Event) int {
	for i := range slices.Backward(records) {
		if records[i].Host() == host && records[i].Type == kind.EventType() {
			return i
		}
	}
	return -1
}

func grantOf(t *testing.T, r *event.Record) string {
	ev := testkit.Value(event.Decode(r.Entry))(t)
	return ev.(event.GrantClaimed).Grant
}

// T28: whatever is altered, taken out, put in or moved in an exported log, its
// check names the first bad record.
func TestT28TamperedTrailIsFound(t *testing.T) {
	t.Parallel()
	tr, anchor := exported(t)
	whole := testkit.Value(logverify.Verify(tr, anchor))(t)
	if len(whole.Findings) != 0 || whole.Promotions != 1 || whole.Hosts != 3 || whole.Releases != 2 || whole.HostEvents == 0 || whole.Unsigned != 0 {
		t.Fatalf("an honest log: %+v", whole)
	}
	first := func(records []event.Record) logverify.Finding {
		t.Helper()
		r, err := logverify.Verify(&replay.History{Records: records, Blobs: tr.Blobs}, anchor)
		if err != nil || len(r.Findings) == 0 {
			return logverify.Finding{}
		}
		return r.Findings[0]
	}
	n := len(tr.Records)
	for i := range n {
		seq := uint64(i) + 1
		altered := slices.Clone(tr.Records)
		altered[i].Body = bytes.Replace(altered[i].Body, []byte("{"), []byte("{ "), 1)
		if f := first(altered); f.Seq != seq || f.Check != "chain" {
			t.Errorf("record %d altered: found %+v", seq, f)
		}
		if i < n-1 { // without the last it is an earlier end of the same log
			if f := first(slices.Delete(slices.Clone(tr.Records), i, i+1)); f.Seq != seq {
				t.Errorf("record %d taken out: found %+v", seq, f)
			}
			swapped := slices.Clone(tr.Records)
			swapped[i], swapped[i+1] = swapped[i+1], swapped[i]
			if f := first(swapped); f.Seq != seq {
				t.Errorf("records %d and %d changed places: found %+v", seq, seq+1, f)
			}
		}
		if f := first(slices.Insert(slices.Clone(tr.Records), i, tr.Records[i])); f.Seq != seq+1 && f.Seq != seq {
			t.Errorf("record %d put in twice: found %+v", seq, f)
		}
	}
	t.Logf("%d records, %d events signed by hosts", n, whole.HostEvents)
}

// One who holds the server and chains the whole log anew still cannot make up what
// hosts reported, nor what a release, a root or a token says.
func TestT28RewrittenTrailIsFound(t *testing.T) {
	t.Parallel()
	tr, anchor := exported(t)
	check := func(what string, records []event.Record, blobs map[digest.Digest][]byte) {
		t.Helper()
		r, err := logverify.Verify(&replay.History{Records: rechained(records), Blobs: blobs}, anchor)
		if err == nil && len(r.Findings)+len(r.Contradictions) == 0 {
			t.Errorf("%s: nothing is found", what)
		}
	}
	for i := range tr.Records {
		r := &tr.Records[i]
		if r.Type == (event.GrantClaimed{}).EventType() { // what the host did with it stays
			never := slices.Delete(slices.Clone(tr.Records), i, i+1)
			offer := lastOf(never[:i], r.Host(), event.Granted{})
			check("a grant and its claim taken out", slices.Delete(never, offer, offer+1), tr.Blobs)
			ended := slices.Clone(tr.Records)
			e := testkit.Value(event.NewEntry(r.At, r.Subject, event.GrantEnded{Grant: grantOf(t, r), Reason: "expired"}))(t)
			ended[i].Entry = e
			check("a claim made an end of the grant", ended, tr.Blobs)
		}
		if r.HostSeq != 0 {
			altered := slices.Clone(tr.Records)
			altered[i].Body = bytes.Replace(r.Body, []byte("{"), []byte("{ "), 1)
			check("an event of a host altered", altered, tr.Blobs)
			check("an event of a host taken out", slices.Delete(slices.Clone(tr.Records), i, i+1), tr.Blobs)
		}
		switch r.Type {
		case event.Granted{}.EventType(), event.GrantClaimed{}.EventType(), event.RolloutOpened{}.EventType(), event.WavePromoted{}.EventType(),
			event.HostEnrolled{}.EventType(), event.RootTrusted{}.EventType():
			check(r.Type+" taken out", slices.Delete(slices.Clone(tr.Records), i, i+1), tr.Blobs)
		case event.ReleaseAccepted{}.EventType():
			altered := slices.Clone(tr.Records)
			altered[i].Body = []byte(strings.Replace(string(r.Body), `"version":`, `"version":1`, 1))
			check("a release of another version", altered, tr.Blobs)
		}
		if r.Type == (event.WavePromoted{}).EventType() { // promoted before anybody soaked
			early := slices.Clone(tr.Records)
			opened := slices.IndexFunc(early, func(o event.Record) bool {
				return o.Type == event.RolloutMoved{}.EventType() && bytes.Contains(o.Body, []byte("stable@r2"))
			})
			moved := early[i]
			early = slices.Insert(slices.Delete(early, i, i+1), opened+1, moved)
			check("a wave promoted without evidence", early, tr.Blobs)
		}
	}
	for d, b := range tr.Blobs { // order-free: each alone
		blobs := map[digest.Digest][]byte{}
		for k, v := range tr.Blobs { // order-free: a copy
			blobs[k] = v
		}
		blobs[d] = append(slices.Clone(b), '\n')
		check("document "+d.Short()+" altered", tr.Records, blobs)
		delete(blobs, d)
		check("document "+d.Short()+" taken out", tr.Records, blobs)
	}
	other := anchor
	other.Root = digest.Of([]byte("another"))
	if r, err := logverify.Verify(tr, other); err != nil || len(r.Findings) == 0 {
		t.Errorf("a log of another root passes: %+v %v", r, err)
	}
	cut := *tr
	cut.Records = tr.Records[:len(tr.Records)-1]
	last := tr.Records[len(tr.Records)-1]
	known := anchor
	known.Head = store.Head{Seq: last.Seq, Term: last.Term, Hash: last.Hash}
	if r, err := logverify.Verify(&cut, known); err != nil || len(r.Findings) == 0 {
		t.Errorf("a log that lost its end passes against a head that was seen: %+v %v", r, err)
	}
	if r, err := logverify.Verify(tr, known); err != nil || len(r.Findings) != 0 {
		t.Errorf("the honest log against its own head: %+v %v", r, err)
	}
}

// TestAuditVerifiesNodes: that a node registered is proven by its token, also from an export.
func TestAuditVerifiesNodes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.wireNode("gw-1")
	n.join()
	n.compared()
	w.halt()
	s := testkit.Value(embedded.Open(t.Context(), filepath.Join(w.opts.DataDir, "store"), embedded.Options{}))(t)
	defer func() { testkit.Must(t, s.Close()) }()
	tr, anchor := w.export(s)
	if r := testkit.Value(logverify.Verify(tr, anchor))(t); len(r.Findings) != 0 {
		t.Errorf("%+v", r.Findings)
	}
	forged := slices.Clone(tr.Records)
	for i := range forged {
		if forged[i].Type == (event.NodeRegistered{}).EventType() {
			forged[i].Body = bytes.Replace(forged[i].Body, []byte(`"node_id":"gw-1"`), []byte(`"node_id":"gw-2"`), 1)
		}
	}
	tr.Records = rechained(forged)
	r := testkit.Value(logverify.Verify(tr, anchor))(t)
	if !slices.ContainsFunc(r.Findings, func(f logverify.Finding) bool {
		return strings.Contains(f.Message, "the token is for node gw-1, not gw-2")
	}) {
		t.Errorf("a forged registration: %+v", r.Findings)
	}
}
