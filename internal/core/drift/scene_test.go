package drift_test

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/drift"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/nodeconfig"
	"github.com/steadyfleet/steady/internal/testkit"
)

var rewrite = flag.Bool("rewrite", false, "write what the scenes in testdata come to")

// TestScenes plays testdata/scenes.txt: a command on a line, what it comes to on those after
// it that begin with >. After each scene the state folded from the log, and one restored
// from a snapshot in the middle, are the same.
func TestScenes(t *testing.T) {
	const file = "testdata/scenes.txt"
	text := string(testkit.Value(os.ReadFile(file))(t))
	var out strings.Builder
	for i, part := range strings.Split(text, "\n## ") {
		if i == 0 {
			out.WriteString(part)
			continue
		}
		name, body, _ := strings.Cut(part, "\n")
		s := &scene{t: t, s: drift.New(), now: 1_700_000_000_000}
		out.WriteString("\n## " + name + "\n")
		for line := range strings.Lines(body) {
			if !strings.HasPrefix(line, ">") {
				out.WriteString(line)
				if words := strings.Fields(line); len(words) > 0 {
					out.WriteString(s.do(words))
				}
			}
		}
		s.again(name)
	}
	if *rewrite {
		testkit.Must(t, os.WriteFile(file, []byte(strings.TrimRight(out.String(), "\n")+"\n"), 0o644))
		return
	}
	got, want := strings.Split(strings.TrimRight(out.String(), "\n"), "\n"), strings.Split(strings.TrimRight(text, "\n"), "\n")
	for i := range max(len(got), len(want)) {
		var a, b string
		if i < len(got) {
			a = got[i]
		}
		if i < len(want) {
			b = want[i]
		}
		if a != b {
			t.Fatalf("%s:%d: it comes to\n%s\nand not to\n%s", file, i+1, a, b)
		}
	}
}

// TestS53SceneRestoredInTheMiddle plays each scene with the state written to JSON and read
// back after every command: it comes to the same.
func TestS53SceneRestoredInTheMiddle(t *testing.T) {
	text := string(testkit.Value(os.ReadFile("testdata/scenes.txt"))(t))
	for _, part := range strings.Split(text, "\n## ")[1:] {
		name, body, _ := strings.Cut(part, "\n")
		s := &scene{t: t, s: drift.New(), now: 1_700_000_000_000}
		var got, want strings.Builder
		for line := range strings.Lines(body) {
			if strings.HasPrefix(line, ">") {
				want.WriteString(line)
			} else if words := strings.Fields(line); len(words) > 0 {
				restored := &drift.State{}
				testkit.Must(t, json.Unmarshal(s.image(s.s), restored))
				s.s = drift.Restore(restored)
				got.WriteString(s.do(words))
			}
		}
		if got.String() != want.String() {
			t.Errorf("%s: restored after each step it comes to\n%s\nand not to\n%s", name, got.String(), want.String())
		}
	}
}

type entry struct {
	at clock.Instant
	ev event.OfNodes
}

type scene struct {
	t       *testing.T
	s       *drift.State
	now     clock.Instant
	log     []entry
	decided int
}

func (s *scene) image(st *drift.State) []byte { return testkit.Value(json.Marshal(st))(s.t) }

// again folds the log once more.
func (s *scene) again(name string) {
	fold := func(from int, st *drift.State) *drift.State {
		for _, e := range s.log[from:] {
			testkit.Must(s.t, st.Apply(testkit.Value(event.NewEntry(e.at, e.ev.On(), e.ev))(s.t)))
		}
		return st
	}
	if a, b := s.image(s.s), s.image(fold(0, drift.New())); string(a) != string(b) {
		s.t.Errorf("%s: S53: the state is\n%s\nand folded again\n%s", name, a, b)
	}
}

// args are KEY=VALUE words; the others are returned.
func args(words []string) (map[string]string, []string) {
	out := map[string]string{}
	var rest []string
	for _, w := range words {
		if k, v, is := strings.Cut(w, "="); is && !strings.ContainsAny(k, `{|"`) {
			out[k] = v
		} else {
			rest = append(rest, w)
		}
	}
	return out, rest
}

// ownKind is one that a driver has a word for; ids of its objects begin with it and a slash.
const ownKind = "camera"

// object reads ID|ETAG|CONFIG|OP|OPETAG; a tunnel's id has a dot.
func object(s string) *drift.Actual {
	f := append(strings.Split(s, "|"), "", "", "", "")
	kind := nodeconfig.Flow
	if strings.Contains(f[0], ".") {
		kind = nodeconfig.Tunnel
	}
	if strings.HasPrefix(f[0], ownKind+"/") {
		kind = ownKind
	}
	op, _ := strconv.ParseUint(f[3], 10, 64)
	return &drift.Actual{Kind: kind, ID: f[0], ETag: f[1], Config: json.RawMessage(cmp.Or(f[2], "{}")), Op: op, OpETag: f[4]}
}

func number(s string) uint64 {
	n, _ := strconv.ParseUint(s, 10, 64)
	return n
}

// do plays one command.
func (s *scene) do(words []string) string {
	opts, rest := args(words[1:])
	arg := func(i int) string {
		if i < len(rest) {
			return rest[i]
		}
		return ""
	}
	node := arg(0)
	session := func() uint64 {
		if v := opts["session"]; v != "" {
			return number(v)
		}
		if n := s.s.Nodes[node]; n != nil {
			return n.Session
		}
		return 0
	}
	switch words[0] {
	case "register":
		key := cmp.Or(opts["key"], node+"-key")
		issued := s.now
		if opts["issued"] == "before" {
			issued -= 1000
		}
		return s.step(drift.Registered{Node: node, Issued: issued, Event: event.NodeRegistered{OnNode: event.OnNode{Node: node}, Key: []byte(key), Token: cmp.Or(opts["token"], key)}})
	case "connect":
		rules := nodeconfig.Rules{Sets: map[string]string{"outputs": "id"}, Secrets: []string{"pass"}, Ignored: []string{"hits"}, Ports: []string{"port"}}
		kinds := []event.NodeCollection{{Kind: nodeconfig.Flow, Rules: rules}, {Kind: nodeconfig.Tunnel, Rules: rules}}
		switch opts["kinds"] {
		case "unknown":
			kinds[0].Kind = "pipe"
		case ownKind:
			kinds[0].Kind = ownKind
		}
		return s.step(drift.Connected{Node: node, Key: []byte(cmp.Or(opts["key"], node+"-key")), Instance: cmp.Or(opts["instance"], "A"), Machine: opts["machine"], Driver: "d", Version: "1", Op: number(opts["op"]), Collections: kinds})
	case "cut":
		return s.step(drift.Disconnected{Node: node, Session: session(), Reason: "cut"})
	case "nextkey":
		return s.step(drift.NextKey{Node: node, Session: session(), Key: []byte(arg(1))})
	case "refused":
		return s.step(drift.Refused{Node: node, Code: arg(1), Detail: "x"})
	case "effect":
		return s.step(drift.Effect{Node: node, Session: session(), Kind: object(arg(1)).Kind, ID: arg(1), Effect: arg(2)})
	case "read":
		in := drift.Snapshot{Node: node, Session: session(), Op: number(opts["op"]), Complete: true, Instance: cmp.Or(opts["instance"], "A")}
		for _, w := range rest[1:] {
			if w == "incomplete" {
				in.Complete = false
			} else {
				in.Objects = append(in.Objects, *object(w))
			}
		}
		return s.step(in)
	case "answer":
		in := drift.Answer{Node: node, Session: session(), Op: number(opts["op"]), Outcome: drift.Outcome(arg(1)), Code: opts["code"], Error: opts["error"], Want: json.RawMessage(opts["want"])}
		if in.Op == 0 && s.s.Nodes[node].Flight != nil {
			in.Op = s.s.Nodes[node].Flight.Op
		}
		if arg(2) != "" {
			in.Object = object(arg(2))
		}
		return s.step(in)
	case "after":
		d, err := time.ParseDuration(arg(0))
		testkit.Must(s.t, err)
		s.now = s.now.Add(clock.FromStd(d))
		return s.commit(s.s.Next(s.now), nil)
	case "show":
		return s.show(rest)
	}
	return s.edit(words[0], opts, rest)
}

func (s *scene) edit(verb string, opts map[string]string, rest []string) string {
	arg := func(i int) string {
		if i < len(rest) {
			return rest[i]
		}
		return ""
	}
	s.decided++
	resolution := "r" + strconv.Itoa(s.decided)
	var e drift.Edit
	switch verb {
	case "set": // KIND NAME, then NODE[:ID] CONFIG for each leg
		in := drift.Set{Kind: arg(0), Name: arg(1), Version: number(opts["version"]), Create: opts["create"] != "", AllowPorts: opts["ports"] != ""}
		in.Definition.Mode = opts["mode"]
		roles := map[string][]string{"": {"ingress", "egress"}, "direct": {"ingress", "egress"}, "relay": {"relay", "ingress", "egress"}, "single": {"ingress"}}[opts["mode"]]
		if in.Kind != nodeconfig.Tunnel {
			roles = []string{in.Kind}
		}
		for i, role := range roles {
			node, id, _ := strings.Cut(arg(2+2*i), ":")
			in.Definition.Legs = append(in.Definition.Legs, nodeconfig.Leg{Role: role, Node: node, ID: id, Config: json.RawMessage(arg(3 + 2*i))})
		}
		e = in
	case "remove":
		e = drift.Remove{Kind: arg(0), Name: arg(1)}
	case "unbin":
		e = drift.Unbin{Kind: arg(0), Name: arg(1)}
	case "resolve":
		in := drift.Resolve{Episode: arg(0), Action: arg(1), Resolution: resolution, As: opts["as"], ETag: opts["etag"]}
		if f := opts["fields"]; f != "" {
			in.Fields = strings.Split(f, ",")
		}
		e = in
	case "undo":
		e = drift.Undo{Resolution: arg(0)}
	case "adopt":
		in := drift.Adopt{Node: arg(0), Resolution: resolution}
		for _, id := range rest[1:] {
			in.Objects = append(in.Objects, drift.ObjectRef{Kind: object(id).Kind, ID: id})
		}
		e = in
	case "dismiss":
		e = drift.Dismiss{Node: arg(0)}
	case "resume":
		e = drift.Resume{Node: arg(0), Push: arg(1) == "push"}
	case "reconcile":
		e = drift.Reconcile{Node: arg(0)}
	case "push": // a node, or a kind and a name
		e = drift.PushNow{Node: arg(0)}
		if arg(1) != "" {
			e = drift.PushNow{Kind: arg(0), Name: arg(1)}
		}
	case "retire":
		e = drift.Retire{Node: arg(0)}
	case "place":
		e = drift.Place{Node: arg(0), Machine: arg(1)}
	case "ignore":
		in := event.DriftIgnored{Rule: resolution, Node: opts["node"], Kind: opts["kind"], Name: opts["name"], Field: arg(0)}
		if v := opts["for"]; v != "" {
			d, err := time.ParseDuration(v)
			testkit.Must(s.t, err)
			in.Until = s.now.Add(clock.FromStd(d))
		}
		e = drift.Ignore{DriftIgnored: in}
	case "unignore":
		e = drift.Unignore{Rule: arg(0)}
	default:
		s.t.Fatalf("no command %q", verb)
	}
	return s.commit(s.s.Edit(e, drift.By{Actor: "ann", Reason: "why"}, s.now))
}

func (s *scene) step(in drift.Input) string { return s.commit(s.s.Step(in, s.now)) }

// commit writes events in words.
func (s *scene) commit(events []event.OfNodes, err error) string {
	var b strings.Builder
	for _, ev := range events {
		s.log = append(s.log, entry{s.now, ev})
		raw := testkit.Value(json.Marshal(ev))(s.t)
		var m map[string]json.RawMessage
		testkit.Must(s.t, json.Unmarshal(raw, &m))
		for _, boring := range []string{"actor", "reason", "driver", "version", "collections", "key", "generation", "session", "origin", "detail", "retry_at", "failedSince", "restoreUntil", "before", "resolution", "until", "attempt", "token", "tokenDoc", "open", "objects", "drift", "notBefore", "machine"} {
			if boring != "version" || strings.HasPrefix(ev.EventType(), "node.") {
				delete(m, boring)
			}
		}
		fmt.Fprintf(&b, ">   %s", strings.TrimPrefix(ev.EventType(), "config_sync."))
		keys := []string{}
		for k := range m {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		for _, k := range keys {
			v := string(m[k])
			if k == "differences" {
				v = words(m[k])
			}
			fmt.Fprintf(&b, " %s=%s", k, v)
		}
		b.WriteString("\n")
	}
	if err != nil {
		fmt.Fprintf(&b, ">   refused: %s\n", err)
	}
	return b.String()
}

// words are differences in words.
func words(raw json.RawMessage) string {
	var list []struct{ Field, Cause, Desired, Observed string }
	_ = json.Unmarshal(raw, &list)
	var out []string
	for _, d := range list {
		out = append(out, fmt.Sprintf("%s(%s→%s,%s)", d.Field, d.Desired, d.Observed, d.Cause))
	}
	return strings.ReplaceAll(strings.Join(out, ";"), " ", "-")
}

// show prints what a node is asked, or why a leg waits.
func (s *scene) show(rest []string) string {
	if rest[0] == "work" {
		w := s.s.Work(rest[1])
		switch {
		case w.Push != nil:
			return fmt.Sprintf(">   push %d %s %s delete=%v if=%q %s\n", w.Push.Op, w.Push.Kind, w.Push.ID, w.Push.Delete, w.Push.IfMatch, w.Push.Config)
		case w.Snapshot:
			return ">   read\n"
		}
		return ">   nothing\n"
	}
	if rest[0] == "inbox" {
		items := s.s.NodeItems(rest[1])
		for _, key := range s.s.ObjectsOf(rest[1]) {
			if i := s.s.ObjectItem(key, s.now); i != nil {
				items = append(items, *i)
			}
		}
		var b strings.Builder
		for _, i := range items {
			if i.Due(s.now) {
				fmt.Fprintf(&b, ">   %s is %s (%s) for %s: %s\n", i.Key(), i.Word, i.Level, s.now.Sub(i.Since).Std(), i.Reason)
			}
		}
		return cmp.Or(b.String(), ">   nothing\n")
	}
	var b strings.Builder
	if rest[0] == "list" {
		for _, o := range s.s.ObjectRows(rest[1], s.now) {
			fmt.Fprintf(&b, ">   %s %s of %s is %s: %s, effect %q\n", o.Kind, o.Name, o.Legs[0].Node, o.Status, o.Summary.Word, o.Legs[0].Effect)
		}
		return cmp.Or(b.String(), ">   nothing\n")
	}
	if rest[0] == "push" {
		in := drift.PushNow{Node: rest[1]}
		if len(rest) > 2 {
			in = drift.PushNow{Kind: rest[1], Name: rest[2]}
		}
		out, err := s.s.PushOutcomes(in, s.now)
		for _, x := range out {
			fmt.Fprintf(&b, ">   %s %s %s on %s, now %v: %s; next: %s\n", x.Kind, x.Name, x.Role, x.Node, x.Now, x.Message, x.Next)
		}
		if err != nil {
			fmt.Fprintf(&b, ">   refused: %s\n", err)
		}
		return cmp.Or(b.String(), ">   nothing\n")
	}
	o := s.s.Objects[drift.Key(rest[0], rest[1])]
	if o == nil {
		return ">   there is none\n"
	}
	for i := range o.Definition.Legs {
		d := &o.Definition.Legs[i]
		l := o.Legs[d.Role]
		fmt.Fprintf(&b, ">   v%d %s: %s", o.Version, d.Role, l.Status)
		if w := s.s.Waits(o, d.Role, s.now); w != nil {
			fmt.Fprintf(&b, ", waits: %s: %s", w.Code, w.Message)
		}
		if l.Acked != nil {
			fmt.Fprintf(&b, ", the node has v%d", l.Acked.Version)
		}
		b.WriteString("\n")
	}
	return b.String()
}
