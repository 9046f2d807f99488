package nodesdk

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// counting is a device in memory that counts how often each operation reaches it.
type counting struct {
	items   map[string]json.RawMessage
	applied map[uint64]int
	fail    error // what Apply returns
	half    bool  // and whether it did it before
}

func (c *counting) Snapshot(context.Context) (State, error) {
	s := State{Complete: true}
	for _, id := range slices.Sorted(maps.Keys(c.items)) {
		s.Items = append(s.Items, Item{Kind: "flow", ID: id, Config: c.items[id]})
	}
	return s, nil
}

func (c *counting) Apply(_ context.Context, op Op) error {
	c.applied[op.Number]++
	if c.fail != nil && !c.half {
		return c.fail
	}
	if op.Delete {
		delete(c.items, op.ID)
	} else {
		c.items[op.ID] = op.Config
	}
	return c.fail
}

func (c *counting) Normalize(it Item) Item { return it }

// crash is the panic that stands for the end of the process.
type crash struct{}

func crashed(f func()) (is bool) {
	defer func() {
		if r := recover(); r != nil {
			if _, is = r.(crash); !is {
				panic(r)
			}
		}
	}()
	f()
	return false
}

func open(t interface{ Fatal(...any) }, dir string, drv Driver, write func(string, []byte) error) *device {
	st, err := openStore(dir, write)
	if err != nil {
		t.Fatal(err)
	}
	cfg := &Config{Driver: drv, Timeout: time.Minute, Log: slog.New(slog.DiscardHandler),
		Collections: []Collection{{Kind: "flow", Secrets: []string{"key"}, Ignored: []string{"seen"}, Sets: map[string]string{"hosts": ""}}}}
	return newDevice(cfg, st)
}

// TestS34CrashAtEveryWrite: wherever the process ends while it applies an operation, the
// next one knows what came of it: asked again, the operation is done once, and the device
// has what was wanted.
func TestS34CrashAtEveryWrite(t *testing.T) {
	base := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp(base, "")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		drv := &counting{items: map[string]json.RawMessage{}, applied: map[uint64]int{}}
		crashAt, after := -1, false
		write := func(path string, raw []byte) error {
			if crashAt == 0 && !after {
				panic(crash{})
			}
			err := writeFile(path, raw)
			if crashAt == 0 {
				panic(crash{})
			}
			crashAt--
			return err
		}
		d := open(t, dir, drv, write)
		_ = d.observe(t.Context())
		var number uint64
		for range rapid.IntRange(1, 6).Draw(t, "operations") {
			number++
			id := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "id")
			a := &Apply{Op: number, Term: 1, Kind: "flow", ID: id, Delete: rapid.Bool().Draw(t, "delete")}
			if !a.Delete {
				a.Config = json.RawMessage(fmt.Sprintf(`{"key":"hush-hush %d","port":%d}`, rapid.IntRange(0, 2).Draw(t, "key"), number))
			}
			have, err := d.read(t.Context(), "flow", id)
			if err != nil {
				t.Fatal(err)
			}
			a.IfMatch = have.etagOf()
			crashAt, after = rapid.IntRange(0, 4).Draw(t, "crash at write"), rapid.Bool().Draw(t, "after it")
			var got *Applied
			if crashed(func() { got = d.apply(t.Context(), a) }) {
				crashAt = -1
				if err := d.st.close(); err != nil {
					t.Fatal(err)
				}
				d = open(t, dir, drv, write)
				if err := d.observe(t.Context()); err != nil {
					t.Fatal(err)
				}
				if rec := d.st.ops.Records[keyOf("flow", id)]; rec != nil && rec.Begun != nil {
					t.Fatalf("after the start operation %d is neither done nor not", number)
				}
				got = d.apply(t.Context(), a)
			}
			crashAt = -1
			if got.Outcome != OutcomeApplied && got.Outcome != OutcomeAlready {
				t.Fatalf("operation %d ended as %+v", number, got)
			}
			if now, is := drv.items[id]; is == a.Delete || is && string(mustCanonical(t, now)) != string(mustCanonical(t, a.Config)) {
				t.Fatalf("after operation %d the device has %s", number, now)
			}
			if n := drv.applied[number]; n > 1 || d.st.ops.Op != number {
				t.Fatalf("operation %d reached the device %d times, the newest applied is said to be %d", number, n, d.st.ops.Op)
			}
			d = reopened(t, d, dir, drv, write)
		}
		if err := d.st.close(); err != nil {
			t.Fatal(err)
		}
	})
}

// reopened is the device after a start, whose state is the same as before.
func reopened(t *rapid.T, d *device, dir string, drv Driver, write func(string, []byte) error) *device {
	if err := d.st.close(); err != nil {
		t.Fatal(err)
	}
	again := open(t, dir, drv, write)
	again.raw, again.have = d.raw, d.have
	if !reflect.DeepEqual(again.st.ops, d.st.ops) || !reflect.DeepEqual(again.st.id, d.st.id) {
		t.Fatalf("the state is %+v, and after a start %+v", d.st.ops, again.st.ops)
	}
	for digest, e := range d.st.vault.Entries {
		if got := again.st.vault.Entries[digest]; got == nil || string(got.Value) != string(e.Value) {
			t.Fatal("a secret was lost")
		}
	}
	return again
}

func mustCanonical(t interface{ Fatal(...any) }, raw json.RawMessage) json.RawMessage {
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestETag: it depends on what is compared, and on secrets, and on nothing else.
func TestETag(t *testing.T) {
	d := open(t, t.TempDir(), &counting{items: map[string]json.RawMessage{}}, writeFile)
	of := func(config string) string {
		o, err := d.object(Item{Kind: "flow", ID: "a", Config: json.RawMessage(config)})
		if err != nil {
			t.Fatal(err)
		}
		return o.etag
	}
	base := of(`{"port":1,"hosts":["x","y"],"key":"hush-hush","seen":1}`)
	for config, same := range map[string]bool{
		` {"key":"hush-hush", "hosts":["y","x"],"seen":2,"port":1}`:           true,
		`{"port":1.0,"hosts":["x","y"],"key":"hush-hush","seen":1}`:           false,
		`{"port":1,"hosts":["x","y"],"key":"hush-hush","seen":1,"none":null}`: false,
		`{"port":1,"hosts":["x","y"],"key":"hush-hush!","seen":1}`:            false,
		`{"port":2,"hosts":["x","y"],"key":"hush-hush","seen":1}`:             false,
		`{"port":1,"hosts":["x"],"key":"hush-hush","seen":1}`:                 false,
		`{"port":1,"hosts":["x","y"],"key":"hush-hush","seen":1,"more":{}}`:   false,
	} {
		if got := of(config); (got == base) != same {
			t.Errorf("%s: the ETag is the same: %v", config, got == base)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		m := rapid.MapOf(rapid.StringMatching(`[a-z/~]{1,3}`), rapid.SampledFrom([]any{1, "a", true, []any{1, "x"}, map[string]any{"n": 1}, "hush-hush"})).Draw(t, "config")
		raw, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		indented, err := json.MarshalIndent(m, " ", "  ")
		if err != nil || of(string(raw)) != of(string(indented)) {
			t.Fatalf("%s in another form has another ETag, %v", raw, err)
		}
		m["another"] = "field"
		more, err := json.Marshal(m)
		if err != nil || of(string(raw)) == of(string(more)) {
			t.Fatalf("%s with a field more has the same ETag, %v", raw, err)
		}
	})
}

// TestOutcome: what came of an operation is judged by what the device has, not by its answer.
func TestOutcome(t *testing.T) {
	for name, c := range map[string]struct {
		fail error
		half bool
		want Outcome
	}{
		"done":                          {nil, false, OutcomeApplied},
		"refused":                       {&InvalidError{Code: "port-in-use", Problems: []Problem{{"port", "hush-hush is busy"}}}, false, OutcomeInvalid},
		"moved":                         {ErrConflict, false, OutcomeConflict},
		"failed":                        {errors.New("the device is busy"), false, OutcomeFailed},
		"done with an error":            {errors.New("timeout"), true, OutcomeApplied},
		"refused and done all the same": {&InvalidError{}, true, OutcomeApplied},
	} {
		drv := &counting{items: map[string]json.RawMessage{}, applied: map[uint64]int{}, fail: c.fail, half: c.half}
		d := open(t, t.TempDir(), drv, writeFile)
		got := d.apply(t.Context(), &Apply{Op: 1, Term: 1, Kind: "flow", ID: "a", Config: json.RawMessage(`{"key":"hush-hush"}`)})
		if got.Outcome != c.want || (got.Object != nil) != (c.want == OutcomeApplied) {
			t.Errorf("%s: %+v", name, got)
		}
		if name == "refused" && (got.Error != "port: [secret of the node] is busy" || got.Code != "port-in-use") {
			t.Errorf("the error is %q", got.Error)
		}
	}
}

// TestStateThatCannotBeWritten: nothing is done that could not be remembered.
func TestStateThatCannotBeWritten(t *testing.T) {
	drv := &counting{items: map[string]json.RawMessage{}, applied: map[uint64]int{}}
	var full error
	d := open(t, t.TempDir(), drv, func(path string, raw []byte) error {
		if full != nil && filepath.Base(path) == fileOps {
			return full
		}
		return writeFile(path, raw)
	})
	full = errors.New("no space left on device")
	a := &Apply{Op: 1, Term: 1, Kind: "flow", ID: "a", Config: json.RawMessage(`{}`)}
	if got := d.apply(t.Context(), a); got.Outcome != OutcomeFailed || got.Code != codeState || drv.applied[1] != 0 {
		t.Errorf("%+v, and it reached the device %d times", got, drv.applied[1])
	}
	full = nil
	if got := d.apply(t.Context(), a); got.Outcome != OutcomeApplied {
		t.Errorf("then it is %+v", got)
	}
}

func TestOneProcess(t *testing.T) {
	dir := t.TempDir()
	first, err := openStore(dir, writeFile)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := openStore(dir, writeFile); err == nil {
		t.Error("two processes have one state")
	}
	if err := first.close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, fileOps), []byte(`{"form`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openStore(dir, writeFile); err == nil {
		t.Error("a state that cannot be read is one that is empty")
	}
}

func TestBackoff(t *testing.T) {
	final, later := &refusedError{Refused{Final: true}}, &refusedError{Refused{RetryAfter: 3000}}
	for _, c := range []struct {
		failures  int
		err       error
		low, high time.Duration
	}{
		{0, errors.New("x"), retryLeast / 2, retryLeast}, {3, errors.New("x"), 4 * retryLeast, 8 * retryLeast},
		{1000, errors.New("x"), retryMost / 2, retryMost}, {0, final, finalLeast / 2, finalLeast}, {60, final, finalMost / 2, finalMost},
		{7, later, 3 * time.Second, 4 * time.Second},
	} {
		if low, high := backoff(c.failures, c.err, 0), backoff(c.failures, c.err, 0.999999); low < c.low || high > c.high || low >= high {
			t.Errorf("after %d failures (%v) it is %v to %v, expected %v to %v", c.failures, c.err, low, high, c.low, c.high)
		}
	}
}

// TestS34WhatWasComesBack: a change by hand that undoes the node's own is one.
func TestS34WhatWasComesBack(t *testing.T) {
	drv := &counting{items: map[string]json.RawMessage{}, applied: map[uint64]int{}}
	d := open(t, t.TempDir(), drv, writeFile)
	if err := d.observe(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.apply(t.Context(), &Apply{Op: 1, Term: 1, Kind: "flow", ID: "a", Config: json.RawMessage(`{}`)})
	if err := d.observe(t.Context()); err != nil || d.foreign() != 0 {
		t.Errorf("the node's own change is somebody else's, %v", err)
	}
	d.apply(t.Context(), &Apply{Op: 2, Term: 1, Kind: "flow", ID: "b", Config: json.RawMessage(`{}`)})
	delete(drv.items, "b")
	if s := d.snapshot(t.Context()); len(s.Objects) != 1 || d.foreign() != 1 {
		t.Errorf("after a change by hand the snapshot is %+v", s)
	}
}

// confirming is a device that takes back what is not confirmed.
type confirming struct {
	counting
	before  map[string]json.RawMessage
	refuses error
}

func (c *confirming) ApplyUnconfirmed(ctx context.Context, op Op, _ time.Duration) error {
	c.before = maps.Clone(c.items)
	return c.Apply(ctx, op)
}

func (c *confirming) Confirm(context.Context) error {
	if c.refuses == nil {
		c.before = nil
	}
	return c.refuses
}

// TestConfirmation: what was not confirmed is neither applied nor failed, until the device
// confirmed it or took it back.
func TestConfirmation(t *testing.T) {
	for _, takenBack := range []bool{false, true} {
		drv := &confirming{counting: counting{items: map[string]json.RawMessage{}, applied: map[uint64]int{}}, refuses: errors.New("the line is cut")}
		d := open(t, t.TempDir(), drv, writeFile)
		a := &Apply{Op: 1, Term: 1, Kind: "flow", ID: "a", Config: json.RawMessage(`{}`)}
		if got := d.apply(t.Context(), a); got.Outcome != OutcomeUnknown {
			t.Errorf("without a confirmation it is %+v", got)
		}
		if s := d.snapshot(t.Context()); s.Op != 0 {
			t.Errorf("what is not confirmed is said to be applied: %+v", s)
		}
		drv.refuses = nil
		if takenBack {
			drv.items = drv.before
		}
		if s := d.snapshot(t.Context()); (s.Op == 1) == takenBack || (len(s.Objects) == 1) == takenBack {
			t.Errorf("taken back: %v, and the snapshot is %+v", takenBack, s)
		}
		want := map[bool]Outcome{false: OutcomeAlready, true: OutcomeApplied}[takenBack]
		if got := d.apply(t.Context(), a); got.Outcome != want {
			t.Errorf("taken back: %v, and requested again it is %+v", takenBack, got)
		}
	}
}

// TestBusy: a node comes again when a busy server asks for it, and not before.
func TestBusy(t *testing.T) {
	after := "7"
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", after)
		http.Error(w, "too many nodes connect at a time", http.StatusServiceUnavailable)
	}))
	defer server.Close()
	pool := x509.NewCertPool()
	pool.AddCert(server.Certificate())
	n := &node{cfg: &Config{Server: server.URL, RootCAs: pool, Name: "n1"}}
	_, err := n.connect(t.Context())
	var r *refusedError
	if !errors.As(err, &r) || r.RetryAfter != 7000 || r.Final || r.Message != "too many nodes connect at a time" || backoff(9, err, 0) != 7*time.Second {
		t.Errorf("it is %v", err)
	}
	after = "Thu, 26 Nov 2026 01:00:00 GMT" // the other form: clocks of nodes are not trusted
	if _, err := n.connect(t.Context()); errors.As(err, &r) || err == nil {
		t.Errorf("with a date it is %v", err)
	}
}

// TestPublicKey: it is made once, and read beside a node that runs.
func TestPublicKey(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	first, err := PublicKey(dir)
	if err != nil {
		t.Fatal(err)
	}
	st, err := openStore(dir, writeFile)
	if err != nil {
		t.Fatal(err)
	}
	again, err := PublicKey(dir)
	if err != nil || !bytes.Equal(again, first) || !bytes.Equal(first, ed25519.NewKeyFromSeed(st.id.Key).Public().(ed25519.PublicKey)) {
		t.Errorf("%x, then %x, %v", first, again, err)
	}
	if err := os.WriteFile(filepath.Join(dir, fileIdentity), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := PublicKey(dir); err == nil {
		t.Error("a key that cannot be read is another one")
	}
}
