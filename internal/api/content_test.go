package api_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/control"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/release"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/internal/wire"
)

// cachedSystem writes a binary cache with a system of one path, and returns the bundle's lines
// that name it. The archive need not be one: nothing here unpacks it.
func cachedSystem(files map[string]string, archive string) string {
	d := digest.Of([]byte(archive))
	path := "/nix/store/5p3kd2yys1q7cvmn4a0w9xh6rjzfgl8b-system-" + d.Short()
	p := fleet.StorePath{Path: path, NarHash: digest.Of([]byte("nar of " + path)), NarSize: 10, Content: d, Size: int64(len(archive)), Compression: "none", References: []string{path}}
	files["web/cache/nar/"+d.Hex()] = archive
	files["web/cache/"+fleet.NarinfoName(path)] = string(p.Narinfo("nar/" + d.Hex()))
	return "system: {driver: nix, path: " + path + ", closure: cache}\n"
}

// pushApart sends a release without its archives.
func (w *world) pushApart(dir string) (operator.Pushed, error) {
	packed := release.PackWithoutNars(os.DirFS(dir))
	defer packed.Close()
	return w.op.Push(w.ctx(), packed)
}

// TestArchivesTravelApart: a release whose archives the server does not have is refused whole.
// They are sent before it, go on where they were torn off, and are refused where they are not
// what their digest says; hosts are served any range of them.
func TestArchivesTravelApart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	archive := strings.Repeat("0123456789abcdef", 100_000)
	d, size := digest.Of([]byte(archive)), int64(len(archive))
	dir := w.build("r1", plan{hosts: 1, content: "one", archive: archive})
	refusal, is := errors.AsType[*operator.Error](errOf(w.pushApart(dir)))
	if !is || refusal.Status != http.StatusUnprocessableEntity || !strings.Contains(refusal.Detail, "names 1 archives of store paths") {
		t.Fatalf("a release without its archive: %v", refusal)
	}
	if version := testkit.Value(w.op.Status(w.ctx()))(t).Release.Version; version != 0 {
		t.Fatalf("version %d was accepted", version)
	}

	ask := func(size int64) []operator.ContentRow {
		t.Helper()
		return testkit.Value(w.op.MissingContent(w.ctx(), []operator.ContentRow{{Digest: d, Size: size}}))(t)
	}
	row := operator.ContentRow{Digest: d, Size: size}
	if got := ask(size); !slices.Equal(got, []operator.ContentRow{row}) {
		t.Fatalf("missing are %v", got)
	}
	// Torn off: what arrived counts, and goes on from there alone.
	const torn = 300_000
	r, cable := io.Pipe()
	sent := make(chan error, 1)
	go func() { sent <- w.op.SendContent(w.ctx(), row, r) }()
	testkit.Value(io.WriteString(cable, archive[:torn]))(t)
	testkit.Eventually(t, "what was sent to count", func() bool { got := ask(size); return len(got) == 1 && got[0].Arrived > 0 })
	testkit.Must(t, cable.CloseWithError(errors.New("the cable")))
	if err := <-sent; err == nil {
		t.Fatal("half an archive was accepted")
	}
	if err := w.op.SendContent(w.ctx(), row, strings.NewReader(archive)); err == nil || !strings.Contains(err.Error(), "ask again what is missing") {
		t.Errorf("sent from another offset: %v", err)
	}
	w.halt()
	w.start() // a restart loses nothing of it
	row.Arrived = ask(size)[0].Arrived
	if row.Arrived == 0 || row.Arrived > torn {
		t.Errorf("%d bytes of %d are there after a restart", row.Arrived, torn)
	}
	testkit.Must(t, w.op.SendContent(w.ctx(), row, strings.NewReader(archive[row.Arrived:])))
	if got := ask(size); len(got) != 0 {
		t.Errorf("missing are %v", got)
	}
	if got := testkit.Value(w.pushApart(dir))(t); got.Outcome != control.Accepted {
		t.Fatalf("the release was %s", got.Outcome)
	}

	// Other bytes than the digest says are refused, and nothing of them stays.
	bad := operator.ContentRow{Digest: digest.Of([]byte("good")), Size: 4}
	if err := w.op.SendContent(w.ctx(), bad, strings.NewReader("evil")); err == nil || !strings.Contains(err.Error(), "came for") {
		t.Errorf("other bytes: %v", err)
	}
	if got := testkit.Value(w.op.MissingContent(w.ctx(), []operator.ContentRow{bad}))(t); !slices.Equal(got, []operator.ContentRow{bad}) {
		t.Errorf("missing are %v", got)
	}
	// More than any disk has is refused before it is sent.
	vast := []operator.ContentRow{}
	for i := range 20_000 {
		vast = append(vast, operator.ContentRow{Digest: digest.Of(fmt.Append(nil, i)), Size: fleet.MaxNar})
	}
	if _, err := w.op.MissingContent(w.ctx(), vast); err == nil || !strings.Contains(err.Error(), "more are needed; nothing was sent") {
		t.Errorf("a disk without room: %v", err)
	}

	a := newAgent(w, hostName(0))
	a.enrol()
	for _, r := range []struct {
		header string
		status int
		want   string
	}{{"", 200, archive}, {"bytes=1599990-", 206, archive[1_599_990:]}, {"bytes=5-9", 206, archive[5:10]}, {"bytes=1600000-", 416, ""}} {
		req := testkit.Value(http.NewRequestWithContext(w.ctx(), http.MethodGet, w.url()+wire.RouteNars+string(d), nil))(t)
		req.Header.Set(wire.Protocol, wire.Version)
		if r.header != "" {
			req.Header.Set("Range", r.header)
		}
		res := testkit.Value(a.http.Do(req))(t)
		body := testkit.Value(io.ReadAll(res.Body))(t)
		testkit.Must(t, res.Body.Close())
		if res.StatusCode != r.status || r.want != "" && string(body) != r.want {
			t.Errorf("range %q: %s with %d bytes", r.header, res.Status, len(body))
		}
	}
}

func errOf[T any](_ T, err error) error { return err }

// TestArchivesThatTwoBring: the later of two that send an archive goes on, and the former ends.
func TestArchivesThatTwoBring(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	archive := bytes.Repeat([]byte("0123456789"), 50_000)
	row := operator.ContentRow{Digest: digest.Of(archive), Size: int64(len(archive))}
	r, hang := io.Pipe() // a client whose connection is dead
	first := make(chan error, 1)
	go func() { first <- w.op.SendContent(context.Background(), row, r) }()
	testkit.Value(hang.Write(archive[:100_000]))(t)
	testkit.Eventually(t, "the beginning to arrive", func() bool {
		got := testkit.Value(w.op.MissingContent(w.ctx(), []operator.ContentRow{row}))(t)
		return len(got) == 1 && got[0].Arrived > 0
	})
	testkit.Eventually(t, "the second to bring it", func() bool {
		got := testkit.Value(w.op.MissingContent(w.ctx(), []operator.ContentRow{row}))(t)
		return len(got) == 0 || w.op.SendContent(w.ctx(), got[0], bytes.NewReader(archive[got[0].Arrived:])) == nil
	})
	testkit.Must(t, hang.CloseWithError(errors.New("over")))
	if err := <-first; err == nil {
		t.Error("the first was told that it brought the archive")
	}
}
