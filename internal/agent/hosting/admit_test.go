package hosting_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/agent/hosting"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/deploy"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/managed"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/wire"
)

func bundle() *spec.Set {
	s := &spec.Set{
		Networks: []spec.Network{{Name: "front"}},
		Images: []spec.Image{
			{Name: "app", Ref: "registry.example/app:1", Pull: &spec.Pull{}},
			{Name: "made", Ref: "registry.example/made:1", Build: &spec.Build{Inline: "FROM scratch"}},
		},
		Workspaces: []spec.Workspace{
			{Name: "web", Title: "site", Image: "app", Ports: []spec.Port{{HostPort: 8080, Port: 80}}},
			{Name: "suspended", Image: "app", State: spec.Stopped},
		},
		Routes: []spec.Route{{Name: "main", Host: "www.example", Workspace: "web", Port: 80}},
	}
	s.Normalize()
	return s
}

var everything = &fleet.Delegation{Kinds: spec.Kinds}

func entry(kind, name, value string) wire.ManagedEntry {
	return wire.ManagedEntry{Kind: kind, Name: name, Spec: json.RawMessage(value), Actor: "ada"}
}

func admit(d *fleet.Delegation, b spec.Bounds, entries ...wire.ManagedEntry) hosting.Admitted {
	if d != nil {
		d = &fleet.Delegation{Kinds: d.Kinds, Bounds: b}
	}
	return hosting.Admit(hosting.AdmitInput{Doc: wire.Managed{Version: 1, Entries: entries}, Delegation: d,
		Bundles: []*spec.Set{bundle()}, Title: func(t string) string { return "edge-" + t }})
}

const image = `{"ref":"registry.example/tool:1","pull":{}}`

func TestAdmitRefusesAloneWhatIsNotDelegated(t *testing.T) {
	good := []wire.ManagedEntry{entry("image", "tool", image), entry("workspace", "job", `{"image":"tool"}`)}
	ports := spec.Bounds{Images: []string{"registry.example"}, Ports: &spec.PortRange{From: 8000, To: 9000}, Routes: &spec.RouteBounds{Hosts: []string{"*"}}}
	for name, c := range map[string]struct {
		entry wire.ManagedEntry
		code  managed.Code
		words string
	}{
		"unknown kind":        {entry("pod", "x", `{}`), managed.NotDelegated, "knows no kind"},
		"bad name":            {entry("volume", "../x", `{}`), managed.Invalid, "name"},
		"unknown field":       {entry("volume", "x", `{"drvier":"local"}`), managed.Invalid, "drvier"},
		"another name":        {entry("volume", "x", `{"name":"y"}`), managed.Invalid, `"y"`},
		"not JSON":            {entry("volume", "x", `{`), managed.Invalid, "cannot be read"},
		"a repeated key":      {entry("volume", "x", `{"driver":"local","Driver":"evil"}`), managed.Invalid, "repeats"},
		"privileged":          {entry("workspace", "x", `{"image":"tool","security":{"privileged":true}}`), managed.OutOfBounds, "privileged"},
		"host network":        {entry("workspace", "x", `{"image":"tool","networkMode":"host"}`), managed.OutOfBounds, "networkMode"},
		"host mount":          {entry("workspace", "x", `{"image":"tool","mounts":[{"type":"bind","source":"/etc","target":"/e"}]}`), managed.OutOfBounds, "/etc"},
		"bind by a volume":    {entry("volume", "x", `{"options":{"type":"none","o":"bind","device":"/"}}`), managed.OutOfBounds, "mount of the host"},
		"a secret":            {entry("workspace", "x", `{"image":"tool","env":[{"name":"P","secret":"db"}]}`), managed.OutOfBounds, "db"},
		"an image elsewhere":  {entry("image", "x", `{"ref":"evil.example/x:1","pull":{}}`), managed.OutOfBounds, "evil.example"},
		"a port outside":      {entry("workspace", "x", `{"image":"tool","ports":[{"hostPort":22,"port":22}]}`), managed.OutOfBounds, "22"},
		"the bundle's name":   {entry("workspace", "web", `{"image":"tool"}`), managed.Clash, "bundle"},
		"its engine's name":   {entry("workspace", "x", `{"image":"tool","title":"site"}`), managed.Clash, "workspace/web"},
		"its port":            {entry("workspace", "x", `{"image":"tool","ports":[{"hostPort":8080,"port":80}]}`), managed.Clash, "8080"},
		"its built image":     {entry("image", "x", `{"ref":"registry.example/made:1","pull":{}}`), managed.Clash, "image/made"},
		"a newer one of its":  {entry("image", "x", `{"ref":"registry.example/app:1","pull":{"policy":"always"}}`), managed.Clash, "image/app"},
		"its routes' host":    {entry("route", "x", `{"host":"WWW.example","path":"/login","workspace":"job","port":80}`), managed.Clash, "route/main"},
		"a route for all":     {entry("route", "x", `{"host":"www.example","workspace":"job","port":80,"tls":"other"}`), managed.OutOfBounds, "certificate"},
		"its network":         {entry("workspace", "x", `{"image":"tool","networks":[{"network":"front"}]}`), managed.Invalid, "network/front of the bundle"},
		"its image":           {entry("workspace", "x", `{"image":"app"}`), managed.Invalid, "image/app of the bundle"},
		"nothing there":       {entry("workspace", "x", `{"image":"none"}`), managed.Invalid, "not declared"},
		"itself":              {entry("workspace", "x", `{"image":"tool","dependsOn":[{"workspace":"x","condition":"started","required":true}]}`), managed.Invalid, "itself"},
		"before 1970":         {wire.ManagedEntry{Kind: "volume", Name: "x", Spec: json.RawMessage(`{}`), NotAfter: -1}, managed.Invalid, "1970"},
		"a verb for nothing":  {wire.ManagedEntry{Kind: "workspace", Name: "x", Verb: "redeploy", Nonce: "1"}, managed.Missing, "redeploy"},
		"stop of the bundle":  {wire.ManagedEntry{Kind: "workspace", Name: "web", Verb: "stop", Nonce: "1"}, managed.OutOfBounds, "bundle"},
		"redeploy of stopped": {wire.ManagedEntry{Kind: "workspace", Name: "suspended", Verb: "redeploy", Nonce: "1"}, managed.OutOfBounds, "bundle"},
		"an unknown verb":     {wire.ManagedEntry{Kind: "workspace", Name: "web", Verb: "explode", Nonce: "1"}, managed.Invalid, "redeploy"},
		"no nonce":            {wire.ManagedEntry{Kind: "workspace", Name: "web", Verb: "redeploy"}, managed.Invalid, "nonce"},
	} {
		got := admit(everything, ports, append([]wire.ManagedEntry{c.entry}, good...)...)
		if len(got.Refused) != 1 || got.Refused[0].Code != c.code || !strings.Contains(got.Refused[0].Message, c.words) {
			t.Errorf("%s: refused %+v, expected %s with %q", name, got.Refused, c.code, c.words)
		}
		if s := got.Layer.Set; len(s.Images) != 1 || len(s.Workspaces) != 1 || s.Workspaces[0].Name != "job" || len(got.BundleRequests) != 0 {
			t.Errorf("%s: the rest did not stay: %+v", name, got.Layer)
		}
	}
	if got := admit(&fleet.Delegation{Kinds: []string{"image"}}, ports, good...); len(got.Refused) != 1 || len(got.Layer.Set.Workspaces) != 0 || len(got.Layer.Set.Images) != 1 {
		t.Errorf("a host that leaves images alone took %+v", got)
	}
	if got := admit(nil, spec.Bounds{Privileged: true, Images: []string{"*"}}, good...); len(got.Refused) != 2 || !got.Layer.Set.Empty() {
		t.Errorf("a host that delegates nothing took %+v", got)
	}
	if got := admit(everything, ports, append(good, good[1])...); len(got.Refused) != 1 || len(got.Layer.Set.Workspaces) != 0 {
		t.Errorf("an entry that is there twice: %+v", got)
	}
}

func TestAdmitTellsVerbsAndEnds(t *testing.T) {
	w := entry("workspace", "job", `{"image":"tool"}`)
	w.Verb, w.Nonce, w.NotAfter, w.StopFrom = "restart", "n1", 5000, 4000
	bad := entry("volume", "data", `{}`)
	bad.Verb, bad.Nonce = "restart", "n2"
	got := admit(everything, spec.Bounds{Images: []string{"*"}}, w, bad, entry("image", "tool", image),
		wire.ManagedEntry{Kind: "workspace", Name: "web", Verb: "redeploy", Nonce: "n3"},
		wire.ManagedEntry{Kind: "image", Name: "made", Verb: "build", Nonce: "n4"})
	want := deploy.Layer{Requests: []deploy.LayerRequest{{Kind: "workspace", Name: "job", Verb: "restart", Nonce: "n1"}}, Until: []deploy.LayerEnd{{Kind: "workspace", Name: "job", NotAfter: 5000, StopFrom: 4000}}}
	want.Set = got.Layer.Set
	if d := cmp.Diff(want, got.Layer); d != "" {
		t.Error(d)
	}
	if len(got.Layer.Set.Volumes) != 1 || len(got.Refused) != 1 || got.Refused[0].Name != "data" {
		t.Errorf("a verb that a kind does not know: %+v", got.Refused)
	}
	if d := cmp.Diff([]deploy.LayerRequest{{Kind: "image", Name: "made", Verb: "build", Nonce: "n4"}, {Kind: "workspace", Name: "web", Verb: "redeploy", Nonce: "n3"}}, got.BundleRequests); d != "" {
		t.Error(d)
	}
}

func TestAdmitTakesSignedEntriesAlone(t *testing.T) {
	value := json.RawMessage(`{"driver":"local"}`)
	signed := hosting.SignedEntry{Kind: "volume", Name: "data", Spec: value, NotAfter: 9}
	for name, c := range map[string]struct {
		change func(e *wire.ManagedEntry, s *hosting.SignedEntry)
		words  string
	}{
		"as signed": {func(*wire.ManagedEntry, *hosting.SignedEntry) {}, ""},
		"spelled anew": {func(e *wire.ManagedEntry, _ *hosting.SignedEntry) {
			e.Spec = json.RawMessage(`{"name":"data", "driver":"local"}`)
		}, ""},
		"unsigned":       {func(e *wire.ManagedEntry, _ *hosting.SignedEntry) { e.Envelope = nil }, "signed"},
		"forged":         {func(e *wire.ManagedEntry, _ *hosting.SignedEntry) { e.Envelope = json.RawMessage(`"forged"`) }, "no key"},
		"another spec":   {func(e *wire.ManagedEntry, _ *hosting.SignedEntry) { e.Spec = json.RawMessage(`{"labels":{"a":"b"}}`) }, "another spec"},
		"another name":   {func(_ *wire.ManagedEntry, s *hosting.SignedEntry) { s.Name = "other" }, "volume/other"},
		"another end":    {func(e *wire.ManagedEntry, _ *hosting.SignedEntry) { e.NotAfter = 10 }, "until"},
		"rubbish signed": {func(_ *wire.ManagedEntry, s *hosting.SignedEntry) { s.Spec = json.RawMessage(`{`) }, "cannot be read"},
	} {
		e, s := entry("volume", "data", string(value)), signed
		e.Envelope, e.NotAfter = json.RawMessage(`"good"`), 9
		c.change(&e, &s)
		got := hosting.Admit(hosting.AdmitInput{Doc: wire.Managed{Entries: []wire.ManagedEntry{e}},
			Delegation: &fleet.Delegation{Kinds: spec.Kinds, Bounds: spec.Bounds{RequireSigned: true}},
			Verify: func(raw json.RawMessage) (hosting.SignedEntry, error) {
				if string(raw) != `"good"` {
					return hosting.SignedEntry{}, errors.New("no key signed it")
				}
				return s, nil
			}})
		if c.words == "" && (len(got.Refused) > 0 || len(got.Layer.Set.Volumes) != 1) ||
			c.words != "" && (len(got.Refused) != 1 || !strings.Contains(got.Refused[0].Message, c.words) || !got.Layer.Set.Empty()) {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if got := admit(everything, spec.Bounds{RequireSigned: true}, entry("volume", "data", "{}")); len(got.Refused) != 1 {
		t.Errorf("without a way to verify: %+v", got)
	}
}

// Pieces of specs, of every kind, from harmless to hostile.
var pieces = map[string][]string{
	"network":  {`"driver":"bridge"`, `"driver":"macvlan"`, `"external":"corp"`, `"internal":true`, `"title":"front"`},
	"volume":   {`"options":{"type":"none","o":"bind","device":"/etc"}`, `"options":{"type":"tmpfs","device":"tmpfs"}`, `"driver":"nfs"`, `"external":"db"`},
	"image":    {`"ref":"registry.example/tool:1","pull":{}`, `"ref":"evil.example/x:1","pull":{}`, `"build":{"inline":"FROM scratch"}`, `"build":{"inline":"FROM scratch","tags":["registry.example/app:1"]}`, `"ref":"a/b:1","load":{"archive":{"digest":"sha256:1","size":1}}`, `"ref":"registry.example/app:1","pull":{"policy":"always"}`},
	"snapshot": {`"workspace":"a"`, `"workspace":"web"`, `"ref":"registry.example/app:1"`, `"take":1`},
	"route":    {`"host":"a.example"`, `"host":"www.example"`, `"workspace":"a"`, `"workspace":"b","port":80`, `"port":80`, `"forwardAuth":"http://127.0.0.1"`},
	"workspace": {`"image":"a"`, `"image":"b"`, `"image":"app"`, `"image":"snapshot/a"`, `"security":{"privileged":true}`, `"security":{"capAdd":["SYS_ADMIN"]}`,
		`"networkMode":"host"`, `"namespaces":{"pid":"host"}`, `"networks":[{"network":"a"}]`, `"networks":[{"network":"front"}]`, `"mounts":[{"type":"bind","source":"/srv/x","target":"/x"}]`,
		`"mounts":[{"type":"volume","source":"a","target":"/x"}]`, `"ports":[{"hostPort":8080,"port":80}]`, `"ports":[{"hostPort":8081,"port":80}]`, `"devices":[{"host":"/dev/kvm","container":"/dev/kvm","permissions":"rw"}]`,
		`"env":[{"name":"A","secret":"db"}]`, `"dependsOn":[{"workspace":"b","condition":"started","required":true}]`, `"dependsOn":[{"workspace":"a","condition":"started"}]`, `"state":"stopped"`, `"title":"site"`, `"limits":{"memory":1073741824}`, `"nonsense":1`},
}

func drawEntry(t *rapid.T) wire.ManagedEntry {
	kind := rapid.SampledFrom(append([]string{"pod"}, spec.Kinds...)).Draw(t, "kind")
	e := wire.ManagedEntry{Kind: kind, Name: rapid.SampledFrom([]string{"a", "b", "c", "web", "app", "made"}).Draw(t, "name"), Actor: "ada"}
	if rapid.IntRange(0, 5).Draw(t, "spec") > 0 && len(pieces[kind]) > 0 {
		fields := map[string]string{}
		for _, p := range rapid.SliceOfN(rapid.SampledFrom(pieces[kind]), 0, 4).Draw(t, "pieces") {
			fields[strings.SplitN(p, ":", 2)[0]] = p
		}
		if kind == "workspace" && rapid.Bool().Draw(t, "image") {
			fields[`"image"`] = `"image":"a"`
		}
		list := []string{}
		for _, k := range slices.Sorted(func(yield func(string) bool) {
			for k := range fields {
				if !yield(k) {
					return
				}
			}
		}) {
			list = append(list, fields[k])
		}
		e.Spec = json.RawMessage("{" + strings.Join(list, ",") + "}")
	}
	if rapid.Bool().Draw(t, "asks") {
		e.Verb, e.Nonce = rapid.SampledFrom([]string{"start", "stop", "redeploy", "retry", "build", "explode"}).Draw(t, "verb"), "n"
	}
	e.NotAfter = clock.Instant(rapid.IntRange(-1, 2).Draw(t, "end"))
	e.Owner = rapid.SampledFrom([]spec.Owner{spec.Operators, spec.Operators, spec.SessionOwner("s"), spec.SessionOwner("t"), "robot/r"}).Draw(t, "owner")
	return e
}

func drawInput(t *rapid.T) hosting.AdmitInput {
	in := hosting.AdmitInput{Bundles: []*spec.Set{bundle()}}
	in.Doc.Entries = rapid.SliceOfN(rapid.Custom(drawEntry), 0, 12).Draw(t, "entries")
	if rapid.IntRange(0, 9).Draw(t, "delegates") > 0 {
		in.Delegation = &fleet.Delegation{Kinds: rapid.SliceOfNDistinct(rapid.SampledFrom(spec.Kinds), 0, 6, rapid.ID[string]).Draw(t, "kinds")}
	}
	bounds := spec.Bounds{
		Images:     rapid.SampledFrom([][]string{nil, {"*"}, {"registry.example"}}).Draw(t, "images"),
		Privileged: rapid.Bool().Draw(t, "privileged"), HostNamespaces: rapid.Bool().Draw(t, "namespaces"), Devices: rapid.Bool().Draw(t, "devices"),
		HostMounts: rapid.SampledFrom([][]string{nil, {"/srv"}}).Draw(t, "mounts"), Secrets: rapid.SampledFrom([][]string{nil, {"db"}}).Draw(t, "secrets"),
		Ports:         rapid.SampledFrom([]*spec.PortRange{nil, {From: 8081, To: 8081}, {From: 1, To: 65535}}).Draw(t, "ports"),
		MaxWorkspaces: rapid.IntRange(0, 2).Draw(t, "most"), RequireSigned: rapid.IntRange(0, 9).Draw(t, "signed") == 0,
		Owners: rapid.SampledFrom([][]string{nil, {"session"}}).Draw(t, "owners"),
	}
	if in.Delegation != nil {
		in.Delegation.Bounds = bounds
	}
	return in
}

// TestP1NothingOutsideTheBoundsIsAdmitted looks at what was admitted with rules
// of its own, one by one.
func TestP1NothingOutsideTheBoundsIsAdmitted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawInput(t)
		got := hosting.Admit(in)
		s, b := got.Layer.Set, spec.Bounds{}
		if in.Delegation != nil {
			b = in.Delegation.Bounds
		}
		if p := s.Check(); len(p) > 0 {
			t.Fatalf("the set is invalid: %v", p)
		}
		for id := range spec.Dependencies(&s) {
			if !in.Delegation.Manages(id.Kind) || in.Bundles[0].Has(id) || b.RequireSigned {
				t.Fatalf("%s was admitted", id)
			}
			if n := slices.IndexFunc(in.Doc.Entries, func(e wire.ManagedEntry) bool { return e.Kind == id.Kind && e.Name == id.Name && len(e.Spec) > 0 }); n < 0 {
				t.Fatalf("%s comes from nowhere", id)
			}
		}
		if b.MaxWorkspaces > 0 && len(s.Workspaces) > b.MaxWorkspaces {
			t.Fatalf("%d workspaces, and %d are allowed", len(s.Workspaces), b.MaxWorkspaces)
		}
		for _, w := range s.Workspaces {
			raw, _ := json.Marshal(w)
			for what, allowed := range map[string]bool{
				`"privileged":true`: b.Privileged, `SYS_ADMIN`: b.Privileged, `"networkMode":"host"`: b.HostNamespaces, `"pid":"host"`: b.HostNamespaces,
				`/dev/kvm`: b.Devices, `/srv/x`: b.HostMounts != nil, `"secret":"db"`: b.Secrets != nil, `"hostPort":8081`: b.Ports != nil,
				`"hostPort":8080`: false, `"title":"site"`: false, `"network":"front"`: slices.ContainsFunc(s.Networks, func(n spec.Network) bool { return n.Name == "front" }),
			} {
				if !allowed && strings.Contains(string(raw), what) {
					t.Fatalf("%s was admitted: %s", what, raw)
				}
			}
		}
		rest, _ := json.Marshal([]any{s.Networks, s.Volumes, s.Images, s.Snapshots, s.Routes})
		for what, allowed := range map[string]bool{`macvlan`: false, `"external"`: false, `/etc`: false, `nfs`: false, `"load"`: false,
			`evil.example`: slices.Contains(b.Images, "*"), `app:1`: false, `www.example`: false, `forwardAuth`: false} {
			if !allowed && strings.Contains(string(rest), what) {
				t.Fatalf("%s was admitted: %s", what, rest)
			}
		}
		for _, a := range got.Layer.Requests {
			if !slices.Contains(spec.Known.Kind(a.Kind).VerbNames(), a.Verb) || !s.Has(spec.ID{Kind: a.Kind, Name: a.Name}) {
				t.Fatalf("%+v was admitted", a)
			}
		}
		for _, a := range got.BundleRequests {
			if !slices.Contains(spec.Known.Kind(a.Kind).VerbNames(), a.Verb) || !in.Delegation.Manages(a.Kind) || a.Verb == "stop" || a.Verb == "start" || !in.Bundles[0].Has(spec.ID{Kind: a.Kind, Name: a.Name}) {
				t.Fatalf("%+v was admitted for the bundle", a)
			}
		}
	})
}

// TestEveryEntryIsTakenOrRefused checks that nothing is dropped in silence.
func TestEveryEntryIsTakenOrRefused(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawInput(t)
		got := hosting.Admit(in)
		for _, e := range in.Doc.Entries {
			refused := slices.ContainsFunc(got.Refused, func(r hosting.Refusal) bool { return r.Kind == e.Kind && r.Name == e.Name && r.Message != "" })
			taken := got.Layer.Set.Has(spec.ID{Kind: e.Kind, Name: e.Name}) ||
				len(e.Spec) == 0 && slices.ContainsFunc(got.BundleRequests, func(a deploy.LayerRequest) bool { return a.Kind == e.Kind && a.Name == e.Name })
			if !refused && !taken {
				t.Fatalf("%s/%s was dropped", e.Kind, e.Name)
			}
		}
	})
}

func TestAdmitIgnoresTheOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawInput(t)
		got := hosting.Admit(in)
		in.Doc.Entries = rapid.Permutation(in.Doc.Entries).Draw(t, "order")
		if d := cmp.Diff(got, hosting.Admit(in)); d != "" {
			t.Fatal(d)
		}
	})
}

// TestWhatIsRefusedMattersToNothing checks that a layer without what was kept out
// gives the same.
func TestWhatIsRefusedMattersToNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawInput(t)
		got := hosting.Admit(in)
		in.Doc.Entries = slices.DeleteFunc(slices.Clone(in.Doc.Entries), func(e wire.ManagedEntry) bool {
			return len(e.Spec) > 0 && !got.Layer.Set.Has(spec.ID{Kind: e.Kind, Name: e.Name})
		})
		again := hosting.Admit(in)
		if d := cmp.Diff(got.Layer, again.Layer); d != "" {
			t.Fatal(d)
		}
	})
}

// FuzzAdmit gives any JSON as a document and as a spec: the set is always valid.
func FuzzAdmit(f *testing.F) {
	for kind, list := range pieces {
		for _, p := range list {
			f.Add([]byte(fmt.Sprintf(`{"entries":[{"kind":%q,"name":"a","spec":{%s}},{"kind":"image","name":"a","spec":%s}]}`, kind, p, image)))
			f.Add([]byte("{" + p + "}"))
		}
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var in hosting.AdmitInput
		if wire.Decode(raw, &in.Doc) != nil {
			in.Doc = wire.Managed{}
		}
		for _, k := range spec.Kinds {
			in.Doc.Entries = append(in.Doc.Entries, wire.ManagedEntry{Kind: k, Name: "x", Spec: raw})
		}
		in.Bundles = []*spec.Set{nil, bundle()}
		in.Delegation = &fleet.Delegation{Kinds: spec.Kinds, Bounds: spec.Bounds{Images: []string{"*"}, Privileged: true, HostNamespaces: true}}
		got := hosting.Admit(in)
		if p := got.Layer.Set.Check(); len(p) > 0 {
			t.Fatalf("invalid: %v", p)
		}
		if p := (&spec.Bounds{Kinds: spec.Kinds, Images: []string{"*"}, Privileged: true, HostNamespaces: true}).CheckSet(&got.Layer.Set); len(p) > 0 {
			t.Fatalf("out of bounds: %v", p)
		}
	})
}

func TestTune(t *testing.T) {
	off := false
	full := wire.Settings{Version: 3, HeartbeatInterval: 10 * clock.Second, Enabled: &off, Pools: fleet.Pools{Pulls: 2}}
	for name, c := range map[string]struct {
		allow []string
		set   wire.Settings
		want  fleet.Settings
		words string
	}{
		"all":           {fleet.Allowances, full, full.Tuned(), ""},
		"only settings": {[]string{fleet.AllowSettings}, full, fleet.Settings{HeartbeatInterval: 10 * clock.Second, Pools: fleet.Pools{Pulls: 2}}, "disable"},
		"only disable":  {[]string{fleet.AllowDisable}, full, fleet.Settings{Enabled: &off}, "settings"},
		"neither":       {nil, full, fleet.Settings{}, "fleet.yaml"},
		"out of bounds": {fleet.Allowances, wire.Settings{HeartbeatInterval: 1}, fleet.Settings{}, "heartbeatInterval"},
		"nothing set":   {nil, wire.Settings{Version: 1}, fleet.Settings{}, ""},
	} {
		got, err := hosting.AdmitSettings(&c.set, &fleet.Delegation{Allow: c.allow})
		if d := cmp.Diff(c.want, got); d != "" || (err == nil) != (c.words == "") || err != nil && !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s: %v %s", name, err, d)
		}
	}
	if got, err := hosting.AdmitSettings(nil, nil); err != nil || got.Disabled() {
		t.Errorf("no settings: %+v, %v", got, err)
	}
	if got, err := hosting.AdmitSettings(&full, nil); err == nil || got.Disabled() {
		t.Errorf("no delegation: %+v, %v", got, err)
	}
}
