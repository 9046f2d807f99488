package store_test

import (
	"bytes"
	"errors"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/store"
)

// heads appends one event at a time and returns the head after each.
func (s *suite) heads(st store.Store, head store.Head, n int) []store.Head {
	s.Helper()
	var out []store.Head
	for i := range n {
		var err error
		head, err = st.Append(s.Context(), head.Seq, head.Term, serverEvents(i, 1))
		s.must(err)
		out = append(out, head)
	}
	return out
}

func testSnapshots(_ *testing.T, s *suite) {
	st, head := s.lead()
	_, err := st.LatestSnapshot(s.Context())
	s.wantErr(err, store.ErrNotFound)
	heads := s.heads(st, head, 5)
	snap := func(i int, body string) store.Snapshot {
		return store.Snapshot{At: heads[i], Format: "fold/1", Body: []byte(body)}
	}
	bad := snap(0, "x")
	bad.At.Hash[31] ^= 1
	s.wantErr(st.SaveSnapshot(s.Context(), bad), store.ErrInvalid)
	bad = snap(0, "x")
	bad.At.Seq = 6
	s.wantErr(st.SaveSnapshot(s.Context(), bad), store.ErrInvalid)
	bad = snap(0, "x")
	bad.At.Term++
	s.wantErr(st.SaveSnapshot(s.Context(), bad), store.ErrInvalid)
	bad = snap(0, "x")
	bad.Format = ""
	s.wantErr(st.SaveSnapshot(s.Context(), bad), store.ErrInvalid)
	_, err = st.LatestSnapshot(s.Context())
	s.wantErr(err, store.ErrNotFound)

	for i := range heads {
		s.must(st.SaveSnapshot(s.Context(), snap(i, string(rune('a'+i)))))
		got, err := st.LatestSnapshot(s.Context())
		s.must(err)
		s.equal("snapshot", got, snap(i, string(rune('a'+i))))
	}
	s.must(st.SaveSnapshot(s.Context(), snap(4, "again"))) // the same sequence anew
	s.must(st.SaveSnapshot(s.Context(), snap(1, "older")))
	got, err := st.LatestSnapshot(s.Context())
	s.must(err)
	s.equal("snapshot", got, snap(4, "again"))
	// The rest of the log verifies from a snapshot.
	s.must(st.SaveSnapshot(s.Context(), snap(2, "c")))
	end, err := store.Replay(s.Context(), st, heads[2], func(page []event.Record) error { return nil })
	s.must(err)
	s.equal("end", end, heads[4])
}

// testSnapshotDamage: a damaged body is passed over, and said so; the two last
// are kept for that.
func testSnapshotDamage(_ *testing.T, s *suite) {
	st, head := s.lead()
	heads := s.heads(st, head, 3)
	for _, h := range heads {
		s.must(st.SaveSnapshot(s.Context(), store.Snapshot{At: h, Format: "f", Body: []byte("body")}))
	}
	s.must(s.e.damageSnapshot(s.name, 3))
	got, err := st.LatestSnapshot(s.Context())
	s.must(err)
	s.equal("snapshot", got, store.Snapshot{At: heads[1], Format: "f", Body: []byte("body"), Skipped: []uint64{3}})
	s.must(s.e.damageSnapshot(s.name, 2))
	_, err = st.LatestSnapshot(s.Context())
	s.wantErr(err, store.ErrCorrupt)
}

func testBlobs(_ *testing.T, s *suite) {
	st := s.open()
	var want []digest.Digest
	for _, b := range [][]byte{{}, []byte("a"), []byte("a"), bytes.Repeat([]byte("0123456789"), 300_000)} {
		d, err := st.PutBlob(s.Context(), b)
		s.must(err)
		s.equal("digest", d, digest.Of(b))
		got, err := st.Blob(s.Context(), d)
		s.must(err)
		if !bytes.Equal(got, b) {
			s.Fatalf("blob %s came back different", d)
		}
		has, err := st.HasBlob(s.Context(), d)
		s.must(err)
		s.equal("has", has, true)
		want = append(want, d)
	}
	slices.Sort(want)
	want = slices.Compact(want)
	var got []digest.Digest
	for d, err := range st.Blobs(s.Context()) {
		s.must(err)
		got = append(got, d)
		_, err = st.Blob(s.Context(), d) // reading while listing
		s.must(err)
	}
	s.equal("digests", got, want)
	for range st.Blobs(s.Context()) {
		break
	}
	other := digest.Of([]byte("other"))
	_, err := st.Blob(s.Context(), other)
	s.wantErr(err, store.ErrNotFound)
	has, err := st.HasBlob(s.Context(), other)
	s.must(err)
	s.equal("has", has, false)
	for _, d := range []digest.Digest{"", "sha256:", "../../etc/passwd", "sha256:../../../../etc/passwd"} {
		_, err := st.Blob(s.Context(), d)
		s.wantErr(err, store.ErrInvalid)
		_, err = st.HasBlob(s.Context(), d)
		s.wantErr(err, store.ErrInvalid)
	}
}

// testBlobDamage: flipped bits are refused, and putting it again repairs.
func testBlobDamage(_ *testing.T, s *suite) {
	st := s.open()
	d, err := st.PutBlob(s.Context(), []byte("precious"))
	s.must(err)
	s.must(s.e.damageBlob(s.name))
	_, err = st.Blob(s.Context(), d)
	s.wantErr(err, store.ErrCorrupt)
	_, err = st.PutBlob(s.Context(), []byte("precious"))
	s.must(err)
	b, err := st.Blob(s.Context(), d)
	s.must(err)
	s.equal("blob", string(b), "precious")
}

// testBlobRemoval: what was put before the instant goes, and what was put again after it
// stays.
func testBlobRemoval(t *testing.T, s *suite) {
	st := s.open()
	put := func(b string) digest.Digest {
		d, err := st.PutBlob(t.Context(), []byte(b))
		s.must(err)
		return d
	}
	remove := func(d digest.Digest, before clock.Instant, size int64, ok bool) {
		t.Helper()
		gotSize, gotOK, err := st.RemoveBlob(t.Context(), d, before)
		s.must(err)
		_, err = st.Blob(t.Context(), d)
		if gone := errors.Is(err, store.ErrNotFound); gotSize != size || gotOK != ok || gone != ok {
			t.Errorf("removed %t with %d bytes, then: %v; want %t with %d", gotOK, gotSize, err, ok, size)
		}
	}
	old, again := put("old"), put("again")
	between := clock.FromTime(time.Now())
	for clock.FromTime(time.Now()) <= between { // the clock may be coarse
		runtime.Gosched()
	}
	put("again")
	remove(again, between+1, 0, false)
	remove(old, between-clock.Instant(clock.Hour), 0, false)
	remove(old, clock.FromTime(time.Now())+1, 3, true)
	_, ok, err := st.RemoveBlob(t.Context(), old, between)
	s.must(err)
	s.equal("removed twice", ok, false)
	_, _, err = st.RemoveBlob(t.Context(), "../../etc/passwd", between)
	s.wantErr(err, store.ErrInvalid)
}

// testSize: the log grows with what is appended, and what can be written to says so.
func testSize(t *testing.T, s *suite) {
	st, head := s.lead()
	before, err := st.Size(t.Context())
	s.must(err)
	_, err = st.Append(t.Context(), head.Seq, head.Term, []event.Entry{{Type: "t", Body: make([]byte, 512<<10)}})
	s.must(err)
	after, err := st.Size(t.Context())
	s.must(err)
	if after.Log < before.Log+512<<10 || after.Limit != 0 {
		t.Errorf("%+v, then %+v", before, after)
	}
	s.must(st.Writable(t.Context()))
	s.must(st.Err())
	select {
	case <-st.Broken():
		t.Error("a store that is well says that it broke")
	default:
	}
}
