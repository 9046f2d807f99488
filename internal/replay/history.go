package replay

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/rollout"
)

// HistoryFormat is the first line's; another layout gets another one.
const HistoryFormat = "steady/history/v1"

// maxLine bounds one line: a manifest of a large fleet is the longest.
const maxLine = 256 << 20

// Beginning is what a log that was pruned begins with: the record that it begins behind, and
// the documents of a checkpoint of it; see event.LogCheckpoint.
type Beginning struct {
	Seq   uint64          `json:"seq"`
	Term  uint64          `json:"term"`
	Hash  []byte          `json:"hash"`
	State json.RawMessage `json:"state"`
	Audit json.RawMessage `json:"audit"`
}

// History is a log from where it begins with the manifests that its events name, which is all
// that a fold of it reads, and with the documents that prove it. It is one stream of JSON
// lines, which a server hands out, a file keeps, a replay reads and an audit checks. It
// is plan.Documents.
type History struct {
	Begins    *Beginning // nil: with the first record
	Records   []event.Record
	Manifests map[digest.Digest]*rollout.Manifest
	// Blobs holds what proves the log; a fold does not read it.
	Blobs map[digest.Digest][]byte
}

// Manifest returns a manifest that the log names.
func (h *History) Manifest(d digest.Digest) (*rollout.Manifest, error) {
	if m := h.Manifests[d]; m != nil {
		return m, nil
	}
	return nil, fmt.Errorf("the history contains no manifest %s", d.Short())
}

// line is one line of the stream; one of its fields is set.
type line struct {
	Format   string     `json:"format,omitempty"`
	Begins   *Beginning `json:"begins,omitempty"`
	Manifest *manifest  `json:"manifest,omitempty"`
	Event    *record    `json:"event,omitempty"`
	Blob     []byte     `json:"blob,omitempty"`
	// End is the sequence of the last event: a stream without it was cut off.
	End *uint64 `json:"end,omitempty"`
}

type manifest struct {
	Digest  digest.Digest   `json:"digest"`
	Header  *fleet.Manifest `json:"header"`
	Leaves  []fleet.Leaf    `json:"leaves"`
	Members [][]string      `json:"members"`
}

// record is one event at its place in the log.
type record struct {
	Seq         uint64          `json:"seq"`
	At          clock.Instant   `json:"at"`
	Term        uint64          `json:"term"`
	Type        string          `json:"type"`
	Subject     event.Subject   `json:"subject,omitzero"`
	Incarnation uint64          `json:"incarnation,omitempty"`
	HostSeq     uint64          `json:"hostSeq,omitempty"`
	Hash        string          `json:"hash,omitempty"` // hexadecimal
	Body        json.RawMessage `json:"body"`
	// Exact is the body where it is not compact, since hashes are over its bytes.
	Exact []byte `json:"exact,omitempty"`
}

// Learner is a plan.Documents that takes from a release where its manifests are.
type Learner interface{ Learn(event.ReleaseAccepted) }

// HistoryWriter writes a history. Each manifest goes out ahead of the event that opens
// its rollout.
type HistoryWriter struct {
	enc  *json.Encoder
	docs plan.Documents
	sent map[digest.Digest]bool
	last uint64
	// Proofs, if set, returns the documents that a record is the first to name.
	Proofs func(*event.Record) ([][]byte, error)
}

// NewHistoryWriter begins a stream.
func NewHistoryWriter(w io.Writer, docs plan.Documents) (*HistoryWriter, error) {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return &HistoryWriter{enc: enc, docs: docs, sent: map[digest.Digest]bool{}}, enc.Encode(line{Format: HistoryFormat})
}

// Begin says what a log that was pruned begins with, ahead of all records, with the
// manifests that it names and the documents that prove what it says.
func (w *HistoryWriter) Begin(b *Beginning, manifests []digest.Digest, proofs [][]byte) error {
	if err := w.enc.Encode(line{Begins: b}); err != nil {
		return err
	}
	w.last = b.Seq
	for _, d := range manifests {
		if err := w.manifest(d); err != nil {
			return err
		}
	}
	for _, blob := range proofs {
		if err := w.enc.Encode(line{Blob: blob}); err != nil {
			return err
		}
	}
	return nil
}

// Write adds records, which must follow those before.
func (w *HistoryWriter) Write(records []event.Record) error {
	for i := range records {
		r := &records[i]
		if err := w.names(r); err != nil {
			return err
		}
		if err := w.proofs(r); err != nil {
			return err
		}
		if err := w.enc.Encode(line{Event: recordOf(r)}); err != nil {
			return err
		}
		w.last = r.Seq
	}
	return nil
}

func (w *HistoryWriter) proofs(r *event.Record) error {
	if w.Proofs == nil {
		return nil
	}
	blobs, err := w.Proofs(r)
	for _, b := range blobs {
		if err == nil {
			err = w.enc.Encode(line{Blob: b})
		}
	}
	return err
}

func recordOf(r *event.Record) *record {
	out := &record{Seq: r.Seq, At: r.At, Term: r.Term, Type: r.Type, Subject: r.Subject, Incarnation: r.Incarnation, HostSeq: r.HostSeq, Body: r.Body}
	if r.Hash != [32]byte{} {
		out.Hash = hex.EncodeToString(r.Hash[:])
	}
	var compact bytes.Buffer
	if json.Compact(&compact, r.Body) != nil || !bytes.Equal(compact.Bytes(), r.Body) {
		out.Exact = r.Body
	}
	return out
}

// names sends the manifest that a record is the first to need.
func (w *HistoryWriter) names(r *event.Record) error {
	if r.Type != (event.ReleaseAccepted{}).EventType() && r.Type != (event.RolloutOpened{}).EventType() {
		return nil
	}
	ev, err := event.Decode(r.Entry)
	switch ev := ev.(type) {
	case event.ReleaseAccepted:
		if l, ok := w.docs.(Learner); ok {
			l.Learn(ev)
		}
		for _, c := range ev.Channels {
			if len(c.Manifests) > 0 {
				if err := w.manifest(c.Manifests[0].Digest); err != nil {
					return err
				}
			}
		}
	case event.RolloutOpened:
		return w.manifest(ev.Manifest)
	}
	return err
}

func (w *HistoryWriter) manifest(d digest.Digest) error {
	if w.sent[d] {
		return nil
	}
	m, err := w.docs.Manifest(d)
	if err != nil {
		return err
	}
	w.sent[d] = true
	return w.enc.Encode(line{Manifest: &manifest{Digest: d, Header: m.Header, Leaves: m.Leaves, Members: m.Members}})
}

// Close ends the stream.
func (w *HistoryWriter) Close() error { return w.enc.Encode(line{End: &w.last}) }

// ErrCut says that a stream has no end.
var ErrCut = errors.New("the history is cut off before its end; fetch it again")

// ReadHistory reads a whole stream. Progress, if set, is told how many events were read,
// now and then.
func ReadHistory(r io.Reader, progress func(events int)) (*History, error) {
	h := &History{Manifests: map[digest.Digest]*rollout.Manifest{}, Blobs: map[digest.Digest][]byte{}}
	sc := bufio.NewScanner(r)
	sc.Buffer(make([]byte, 64<<10), maxLine)
	for n := 1; sc.Scan(); n++ {
		var l line
		if err := json.Unmarshal(sc.Bytes(), &l); err != nil {
			return nil, fmt.Errorf("line %d of the history: %w; expected what steady audit export writes", n, err)
		}
		switch {
		case n == 1 && l.Format != HistoryFormat:
			return nil, fmt.Errorf("this is no history in the format %s; expected what steady audit export writes", HistoryFormat)
		case l.Begins != nil:
			if h.Begins != nil || len(h.Records) > 0 || len(l.Begins.Hash) != 32 {
				return nil, fmt.Errorf("line %d of the history: it begins twice, or behind no record", n)
			}
			h.Begins = l.Begins
		case l.Manifest != nil:
			m := l.Manifest
			if m.Header == nil {
				return nil, fmt.Errorf("line %d of the history: manifest %s has no header", n, m.Digest.Short())
			}
			h.Manifests[m.Digest] = &rollout.Manifest{Digest: m.Digest, Header: m.Header, Leaves: m.Leaves, Members: m.Members}
		case l.Blob != nil:
			h.Blobs[digest.Of(l.Blob)] = l.Blob
		case l.Event != nil:
			if err := h.add(l.Event); err != nil {
				return nil, err
			}
			if progress != nil && len(h.Records)%1000 == 0 {
				progress(len(h.Records))
			}
		case l.End != nil:
			if *l.End != h.End() {
				return nil, ErrCut
			}
			return h, nil
		}
	}
	if err := sc.Err(); err != nil {
		return nil, fmt.Errorf("read the history: %w", err)
	}
	return nil, ErrCut
}

func (h *History) add(r *record) error {
	if r.Seq != h.End()+1 {
		return fmt.Errorf("the history has event %d where %d is expected: it must begin with the first or a checkpoint, and have no gap", r.Seq, h.End()+1)
	}
	rec := event.Record{Seq: r.Seq, Term: r.Term, Entry: event.Entry{At: r.At, Type: r.Type, Subject: r.Subject,
		Incarnation: r.Incarnation, HostSeq: r.HostSeq, Body: r.Body}}
	if r.Exact != nil {
		rec.Body = r.Exact
	}
	if hash, err := hex.DecodeString(r.Hash); err != nil || len(hash) != 0 && copy(rec.Hash[:], hash) != len(hash) {
		return fmt.Errorf("event %d of the history has no hash of 32 bytes", r.Seq)
	}
	h.Records = append(h.Records, rec)
	return nil
}
