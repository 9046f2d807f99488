package netconf

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/nodesdk"
)

func op(id, config string, was *nodesdk.Item) nodesdk.Op {
	return nodesdk.Op{Number: 1, Kind: "flow", ID: id, Config: json.RawMessage(config), Delete: config == "", Was: was}
}

func read(t *testing.T, d *Driver, id string) *nodesdk.Item {
	t.Helper()
	it, there, err := d.Read(t.Context(), "flow", id)
	testkit.Must(t, err)
	if !there {
		return nil
	}
	it = d.Normalize(it)
	return &it
}

// TestDeviceTakesBackByItself: a change that is not confirmed is gone when its time has
// passed; one that the next session confirms stays.
func TestDeviceTakesBackByItself(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d := w.open(nil)
	s := testkit.Value(d.login.dial(t.Context()))(t)
	t.Cleanup(s.close)
	_, err := s.rpc(t.Context(), `<create-subscription xmlns="urn:ietf:params:xml:ns:netconf:notification:1.0"/>`)
	testkit.Must(t, err)
	testkit.Must(t, d.ApplyUnconfirmed(t.Context(), op("a", `{"port":1}`, nil), time.Second))
	if read(t, d, "a") == nil {
		t.Fatal("the change is not in effect before it is confirmed")
	}
	// netconfd notices that time has passed when nobody asks it for something.
	for e := (*element)(nil); e.child("netconf-confirmed-commit").line("confirm-event") != "timeout"; {
		e = testkit.Value(s.message(t.Context()))(t)
	}
	if read(t, d, "a") != nil {
		t.Fatal("the device told that it took the change back, and has it")
	}
	testkit.Must(t, d.Confirm(t.Context())) // there is nothing to confirm
	testkit.Must(t, d.ApplyUnconfirmed(t.Context(), op("b", `{"port":2}`, nil), time.Minute))
	d.Close() // as a crash between the two does
	again := w.open(nil)
	if read(t, again, "b") == nil {
		t.Fatal("the change ended with its session")
	}
	testkit.Must(t, again.Confirm(t.Context()))
	w.Restart(false)
	testkit.Eventually(t, "the device is back", func() bool { _, err := again.Snapshot(t.Context()); return err == nil })
	if read(t, again, "b") == nil {
		t.Error("what was confirmed did not outlive a restart")
	}
}

// TestCandidateOfSomebodyElse: edits that wait in the candidate are neither committed nor
// discarded, and the change is tried again later.
func TestCandidateOfSomebodyElse(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d, other := w.open(nil), w.open(nil)
	s := testkit.Value(other.session(t.Context()))(t)
	_, err := s.rpc(t.Context(), `<edit-config><target><candidate/></target><config><flows xmlns="`+testkit.NetconfNamespace+`"><flow><name>theirs</name></flow></flows></config></edit-config>`)
	testkit.Must(t, err)
	err = d.Apply(t.Context(), op("ours", `{}`, nil))
	if invalid := (*nodesdk.InvalidError)(nil); err == nil || errors.As(err, &invalid) || !strings.Contains(err.Error(), "somebody else") {
		t.Errorf("with a candidate of somebody else it ends with %v", err)
	}
	_, err = s.rpc(t.Context(), "<commit/>")
	testkit.Must(t, err)
	testkit.Must(t, d.Apply(t.Context(), op("ours", `{}`, nil)))
	if read(t, d, "theirs") == nil || read(t, d, "ours") == nil {
		t.Error("not both are there")
	}
}

// TestRefusalsNameTheField, and a refused object leaves nothing in the candidate.
func TestRefusalsNameTheField(t *testing.T) {
	t.Parallel()
	d := newWorld(t).open(nil)
	testkit.Must(t, d.Apply(t.Context(), op("a", `{"port":1}`, nil)))
	for config, field := range map[string]string{`{"port":70000}`: "port", `{"colour":"red"}`: "colour", `{"enabled":"perhaps"}`: "enabled", `{"output":[{"id":"1"}]}`: "output/to", `{"port":1}`: ""} {
		problems := testkit.Value(d.Validate(t.Context(), nodesdk.Item{Kind: "flow", ID: "b", Config: json.RawMessage(config)}))(t)
		if len(problems) == 0 || field != "" && problems[0].Field != field {
			t.Errorf("%s is answered with %+v", config, problems)
		}
		var invalid *nodesdk.InvalidError
		if err := d.Apply(t.Context(), op("b", config, nil)); !errors.As(err, &invalid) {
			t.Errorf("applying %s ends with %v", config, err)
		}
	}
	if p := testkit.Value(d.Validate(t.Context(), nodesdk.Item{Kind: "flow", ID: "b", Config: json.RawMessage(`{"port":2}`)}))(t); len(p) > 0 || read(t, d, "b") != nil {
		t.Errorf("a good object is refused with %+v, or was made", p)
	}
	testkit.Must(t, d.Apply(t.Context(), op("b", `{"port":2}`, nil)))
}

// TestOtherDevices: NETCONF 1.0, and a device whose running configuration is edited.
func TestOtherDevices(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		flags  []string
		only10 bool
	}{"1.0": {nil, true}, "running": {[]string{"--target=running"}, false}, "startup": {[]string{"--with-startup=true"}, false}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, c.flags...)
			d := w.open(nil)
			d.login.only10 = c.only10
			testkit.Must(t, d.ApplyUnconfirmed(t.Context(), op("a", `{"port":1,"auth":{"password":"]]>]]>"}}`, nil), time.Minute))
			testkit.Must(t, d.Confirm(t.Context()))
			was := read(t, d, "a")
			testkit.Must(t, d.ApplyUnconfirmed(t.Context(), op("a", `{"port":2}`, was), time.Minute))
			testkit.Must(t, d.Confirm(t.Context()))
			if err := d.Apply(t.Context(), op("a", "", was)); !errors.Is(err, nodesdk.ErrConflict) {
				t.Errorf("deleting what moved ends with %v", err)
			}
			w.Restart(false)
			testkit.Eventually(t, "the device is back", func() bool { _, err := d.Snapshot(t.Context()); return err == nil })
			if now := read(t, d, "a"); now == nil || string(now.Config) != `{"port":2}` {
				t.Errorf("after a restart it is %+v", now)
			}
		})
	}
}

func TestDocument(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d := w.open(map[string]string{"path": "/gateway", "key": "", "types": "", "lists": ""})
	if s := testkit.Value(d.Snapshot(t.Context()))(t); !s.Complete || len(s.Items) != 0 {
		t.Errorf("an empty device has %+v", s)
	}
	testkit.Must(t, d.Apply(t.Context(), op("gateway", `{"location":"hall 3","contact":"ops"}`, nil)))
	was := read(t, d, "gateway")
	testkit.Must(t, d.Apply(t.Context(), op("gateway", `{"location":"hall 4"}`, was)))
	if now := read(t, d, "gateway"); string(now.Config) != `{"location":"hall 4"}` {
		t.Errorf("it is %s", now.Config)
	}
	var invalid *nodesdk.InvalidError
	if err := d.Apply(t.Context(), op("other", `{}`, nil)); !errors.As(err, &invalid) {
		t.Errorf("another document ends with %v", err)
	}
}

// TestWatch: a commit of somebody else is told at once.
func TestWatch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d, other := w.open(nil), w.open(nil)
	ctx, cancel := context.WithCancel(t.Context())
	told, ended := make(chan struct{}, 100), make(chan error, 1)
	go func() { ended <- d.Watch(ctx, func() { told <- struct{}{} }) }()
	<-told // it is subscribed
	testkit.Must(t, other.write(t, "a", json.RawMessage(`{"port":1}`)))
	<-told
	cancel()
	testkit.Must(t, <-ended)
}

func TestPinnedKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d := w.open(map[string]string{"host-key": "SHA256:AAAA"})
	if _, err := d.Snapshot(t.Context()); err == nil || !strings.Contains(err.Error(), w.Fingerprint) {
		t.Errorf("another key than the pinned one ends with %v", err)
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	key := t.TempDir() + "/password"
	testkit.Must(t, os.WriteFile(key, []byte("x\n"), 0o600))
	good := map[string]string{"address": "router", "user": "u", "host-key": "SHA256:x", "password-file": key, "path": "/a/b", "namespace": "urn:a", "key": "k"}
	d, _, err := Open(good)
	testkit.Must(t, err)
	if a := d.(*Driver).login.address; a != "router:830" {
		t.Errorf("the address is %s", a)
	}
	for name, value := range map[string]string{"address": "", "user": "", "host-key": "", "password-file": "", "path": "/a b", "namespace": "", "types": "a=float"} {
		bad := map[string]string{}
		for k, v := range good {
			bad[k] = v
		}
		bad[name] = value
		if _, _, err := Open(bad); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s=%q ends with %v", name, value, err)
		}
	}
}

// TestFraming: what was written is read, in whatever pieces.
func TestFraming(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		f := &frames{chunked: rapid.Bool().Draw(t, "chunked")}
		var wire bytes.Buffer
		f.out = &wire
		var sent []string
		for _, m := range rapid.SliceOfN(rapid.StringMatching(`[a-z<>\]#\n]{1,40}`), 1, 5).Draw(t, "messages") {
			if !f.chunked && strings.Contains(m+string(endOfMessage[:5]), string(endOfMessage)) {
				continue // 1.0 has no way to send it
			}
			sent = append(sent, m)
			testkit.Must(t, f.write([]byte(m)))
		}
		f.in = bufio.NewReaderSize(&wire, 16)
		for _, want := range sent {
			if got, err := f.read(); err != nil || string(got) != want {
				t.Fatalf("%q is read as %q, %v", want, got, err)
			}
		}
	})
	for _, wire := range []string{"\n#0\n\n##\n", "\n#4294967295\nx", "\n#-1\nx", "#1\nx", "\n##\n", "\n#1x\na", "\n#5\nab", "x", ""} {
		f := &frames{chunked: true, in: bufio.NewReader(strings.NewReader(wire))}
		if got, err := f.read(); err == nil {
			t.Errorf("%q is read as %q", wire, got)
		}
	}
}

// TestXMLIsLossless: data that went through XML are as Normalize has them.
func TestXMLIsLossless(t *testing.T) {
	t.Parallel()
	f := form{types: map[string]string{"n": typeNumber, "l/*/b": typeBoolean, "e": typeEmpty, "i": typeIdentity}, lists: map[string]string{"l": "k", "tags": ""}}
	name := xml.Name{Space: "urn:a", Local: "o"}
	for _, text := range []string{
		`{"n":5,"x":"  <&>\n","l":[{"k":"1","b":true}],"tags":["a"],"m":["1","2"],"c":{"d":{"e":"f"}}}`,
		`{"e":true,"i":"{urn:b}fast"}`, `{"i":"{urn:a}slow"}`, `{"{urn:b}x":{"{urn:a}y":"z"}}`, `{"many":[{"a":"1"},{"a":"2"}]}`, `{}`,
	} {
		var v any
		d := json.NewDecoder(strings.NewReader(text))
		d.UseNumber()
		testkit.Must(t, d.Decode(&v))
		want := f.normal(v, "")
		e, err := f.element(name, want, "")
		testkit.Must(t, err)
		var b strings.Builder
		e.write(&b, "")
		back := testkit.Value(parse([]byte(b.String())))(t)
		got, err := f.value(back, "")
		testkit.Must(t, err)
		if got == "" {
			got = map[string]any{}
		}
		if !reflect.DeepEqual(f.normal(got, ""), want) {
			t.Errorf("%s became %s and then %v", text, b.String(), got)
		}
	}
	for _, bad := range []string{`<a><b>`, `<a>x<b/></a>`, `<a/><b/>`, strings.Repeat("<a>", 100), `&x;`, `<!DOCTYPE a [<!ENTITY x "y">]><a>&x;</a>`} {
		e, err := parse([]byte(bad))
		if err == nil {
			_, err = f.value(e, "")
		}
		if err == nil {
			t.Errorf("%.40s is read", bad)
		}
	}
}
