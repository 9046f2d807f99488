package api_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/api"
	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/control"
	"github.com/steadyfleet/steady/internal/core/event"
	coreplan "github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/store"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/internal/wire"
)

// killed copies the folder of a running server as a kill leaves it.
func (w *world) killed() (dir string) {
	w.t.Helper()
	dir = filepath.Join(w.t.TempDir(), "data")
	testkit.Must(w.t, exec.Command("cp", "-a", w.opts.DataDir, dir).Run())
	return dir
}

// cutWAL drops the last part of the log's WAL, as SQLite does with all behind a damaged bit.
func cutWAL(t *testing.T, dir string, keep int64) {
	t.Helper()
	testkit.Must(t, os.Truncate(filepath.Join(dir, "store", "log.db-wal"), keep))
}

func (w *world) wal(dir string) int64 {
	w.t.Helper()
	info := testkit.Value(os.Stat(filepath.Join(dir, "store", "log.db-wal")))(w.t)
	return info.Size()
}

// TestS33WhoWasRevokedStaysOut: a server whose log lost a revocation answers nobody until
// the owner of the data folder ends that, and then the log says so.
func TestS33WhoWasRevokedStaysOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.release("r1", plan{hosts: 2, content: "one"})
	host := w.agents(1)[0]
	secret := testkit.Value(w.op.CreateToken(w.ctx(), operator.NewToken{Name: "ann", Role: operator.Admin}))(t)
	before := w.wal(w.opts.DataDir)
	testkit.Must(t, w.op.RevokeToken(w.ctx(), secret.ID, false))
	testkit.Must(t, w.op.RevokeHost(w.ctx(), hostName(0), "stolen"))
	dir := w.killed()
	cutWAL(t, dir, before)
	w.halt()
	w.opts.DataDir = dir
	w.start()

	if status, _, err := host.call(w.ctx(), "POST", wire.RouteHeartbeat, wire.Heartbeat{Incarnation: host.incarnation}); err != nil || status != http.StatusServiceUnavailable {
		t.Errorf("the revoked host is answered %d, %v", status, err)
	}
	for name, c := range map[string]*operator.Client{"ann": w.client(secret.Secret), "admin": w.op} {
		if _, err := c.Status(w.ctx()); err == nil || !strings.Contains(err.Error(), "was acknowledged") || !strings.Contains(err.Error(), "safe-mode end") {
			t.Errorf("%s is answered %v", name, err)
		}
	}
	w.expectProbes(w.server, 200, 503, "set-back")
	var metrics bytes.Buffer
	if w.get(w.server, operator.RouteMetrics, &metrics); !strings.Contains(metrics.String(), "\nsteady_set_back 1\n") {
		t.Error("the metrics do not say it")
	}
	token := testkit.Value(control.NewRecovery("root", "somebody"))(t)
	if err := token.Request(w.ctx(), dir); err == nil || !strings.Contains(err.Error(), "safe-mode end") {
		t.Errorf("a new token: %v", err)
	}
	w.halt()
	w.start() // it is no way out
	w.expectProbes(w.server, 200, 503, "set-back")

	word := control.SafeModeEnd{ID: "1", Actor: "owner", Reason: "drill"}
	testkit.Must(t, word.Request(w.ctx(), dir))
	testkit.Value(w.op.Status(w.ctx()))(t)
	page := testkit.Value(w.op.Events(w.ctx(), operatorAll))(t)
	var told []string
	for _, e := range page.Events {
		if e.Type == (event.SafeModeEnded{}).EventType() {
			told = append(told, string(e.Body))
		}
	}
	if len(told) != 1 || !strings.Contains(told[0], `"reason":"drill"`) {
		t.Errorf("the log has %v", told)
	}
	w.halt()
	w.start()
	w.expectProbes(w.server, 200, 200)
}

// TestS33DamagedFolder: whatever bit turns in the folder of a killed server, and whatever of it is cut,
// gone or older than the rest: the server starts with all that it acknowledged, or is refused
// with words, or lets nobody in.
func TestS33DamagedFolder(t *testing.T) {
	w := newWorld(t, func(o *api.Options) { o.Control.SnapshotEvery = 4 })
	w.release("r1", plan{hosts: 2, content: "one"})
	w.agents(2)
	ann := testkit.Value(w.op.CreateToken(w.ctx(), operator.NewToken{Name: "ann", Role: operator.Admin}))(t)
	yesterday := w.killed()
	testkit.Must(t, w.op.RevokeToken(w.ctx(), ann.ID, false))
	testkit.Must(t, w.op.RevokeHost(w.ctx(), hostName(0), "stolen"))
	today, head := w.killed(), w.server.Control().Head()
	w.halt()
	j := &judge{t: t, w: w, head: head, ann: ann.ID, seen: map[string]int{}}
	put := func(dir, from string, names ...string) {
		for _, name := range names {
			testkit.Must(t, os.WriteFile(filepath.Join(dir, name), testkit.Value(os.ReadFile(filepath.Join(from, name)))(t), 0o600))
		}
	}
	const log, wal, anchor = "store/log.db", "store/log.db-wal", "store/anchor"
	j.try("nothing", today, func(string) {}, "as before")
	j.try("the WAL is gone", today, func(dir string) { testkit.Must(t, os.Remove(filepath.Join(dir, wal))) }, "closed")
	j.try("the log is gone", today, func(dir string) {
		testkit.Must(t, errors.Join(os.Remove(filepath.Join(dir, log)), os.Remove(filepath.Join(dir, wal)), os.Remove(filepath.Join(dir, anchor))))
	}, "closed")
	j.try("yesterday's log beside today's anchor", today, func(dir string) { put(dir, yesterday, log, wal) }, "closed")
	// What a folder is as a whole nothing in it shows: hosts that know more decide (TestSafeModeUntilReplayed).
	j.try("yesterday's folder", yesterday, func(string) {}, "older")
	var names []string
	testkit.Must(t, filepath.WalkDir(today, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			names = append(names, strings.TrimPrefix(path, today+"/"))
		}
		return err
	}))
	places := 1
	if testkit.Nightly() {
		places = 200
	}
	rng := rand.New(rand.NewPCG(1, 7))
	for _, name := range names {
		size := int(testkit.Value(os.Stat(filepath.Join(today, name)))(t).Size())
		if size == 0 {
			continue
		}
		for range places {
			at, bit := rng.IntN(size), rng.IntN(8)
			j.try(fmt.Sprintf("bit %d of byte %d of %s", bit, at, name), today, func(dir string) {
				raw := testkit.Value(os.ReadFile(filepath.Join(dir, name)))(t)
				raw[at] ^= 1 << bit
				testkit.Must(t, os.WriteFile(filepath.Join(dir, name), raw, 0o600))
			}, "")
		}
		if cut := rng.IntN(size); testkit.Nightly() || strings.HasPrefix(name, "store/log") || name == anchor {
			j.try(fmt.Sprintf("%s cut at %d", name, cut), today, func(dir string) { testkit.Must(t, os.Truncate(filepath.Join(dir, name), int64(cut))) }, "")
		}
	}
	t.Logf("%v", j.seen)
	if j.seen["as before"] == 0 || j.seen["closed"] < 5 {
		t.Errorf("the damage came to %v alone", j.seen)
	}
}

// judge says what a server makes of a damaged folder.
type judge struct {
	t    *testing.T
	w    *world
	head store.Head
	ann  string
	seen map[string]int
}

// try starts a server on a copy of a folder; want is empty where it may be any of the three.
func (j *judge) try(what, from string, harm func(dir string), want string) {
	j.t.Helper()
	dir := filepath.Join(j.t.TempDir(), "data")
	testkit.Must(j.t, exec.Command("cp", "-a", from, dir).Run())
	harm(dir)
	got := j.outcome(what, dir)
	j.seen[got]++
	if want == "" && got == "older" || want != "" && got != want {
		j.t.Errorf("%s: %s, want %s", what, got, want)
	}
	testkit.Must(j.t, os.RemoveAll(dir))
}

func (j *judge) outcome(what, dir string) string {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	o := j.w.opts
	o.DataDir, o.Names = dir, nil
	s, err := api.Start(ctx, o)
	if err != nil {
		j.t.Logf("%s: %v", what, err)
		return "refused"
	}
	defer func() {
		stop()
		_ = s.Wait() // a damaged record may have ended it
	}()
	if b := s.Control().SetBack(); b != nil {
		return "closed"
	}
	whole := false
	if err := s.Control().View(ctx, func(st *coreplan.State) {
		_, good := st.Operators[j.ann]
		whole = !good && st.Hosts[hostName(0)].RevokedBefore > 0 && st.Hosts[hostName(1)].Incarnation == 1
	}); err != nil {
		j.t.Logf("%s: %v", what, err)
		return "refused"
	}
	records, err := s.Control().Records(ctx, j.head.Seq-1, 1)
	switch {
	case err != nil:
		j.t.Logf("%s: %v", what, err)
		return "refused"
	case whole && len(records) == 1 && records[0].Hash == j.head.Hash:
		return "as before"
	}
	return "older"
}
