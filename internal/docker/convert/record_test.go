package convert_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/moby/moby/client"

	"github.com/steadyfleet/steady/internal/core/diff"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/docker/convert"
)

// recorded is a container with much of everything, and its record.
func recorded(t *testing.T) (w *world, s spec.Workspace, id string, rec *convert.Record) {
	w = newWorld(t)
	s = workspace()
	s.Image, s.Command = "rich", nil
	s.Env = []spec.Env{{Name: "PLAIN", Secret: "db"}, {Name: "MY_TOKEN", Value: "visible-in-the-declaration"}, {Name: "X", Value: "1"}}
	s.Contents = []spec.Content{{Target: "/etc/key", Secret: "tls"}}
	s.Labels, s.Limits.Memory = map[string]string{"a": "b"}, 64<<20
	s.Mounts = []spec.Mount{{Type: spec.MountVolume, Source: "data", Target: "/data"}}
	s.Networks = []spec.Attachment{{Network: "front", Aliases: []string{"web"}}}
	id = w.create(t, s)
	return w, s, id, w.record(t, s, id)
}

// TestNoSecretIsRecordedOrShown holds every document that leaves the form to
// that it has no value of the secret store.
func TestNoSecretIsRecordedOrShown(t *testing.T) {
	w, s, id, rec := recorded(t)
	raw, err := json.Marshal(rec)
	w.ok(err)
	if text := string(raw); strings.Contains(text, values["db"]) || strings.Contains(text, values["tls"]) {
		t.Error("the record has a secret's value")
	}
	if env := w.inspect(t, id).Config.Env; !strings.Contains(strings.Join(env, "\n"), "PLAIN="+values["db"]) {
		t.Fatalf("the container has no secret: %q", env)
	}
	same(t, "with secrets", w.compare(t, s, id, rec))

	// The secret changed, was taken out of the declaration, and a declaration
	// without any knowledge of it: never a value.
	changed := w.inputs(s)
	changed.Secrets["db"], changed.Secrets["tls"] = key("another"), key("another")
	none := s
	none.Env, none.Contents = nil, nil
	for name, x := range map[string]struct {
		s  spec.Workspace
		in convert.Inputs
		n  int
	}{"changed": {s, changed, 2}, "gone": {none, w.inputs(none), 4}} {
		ds, err := convert.Compare(w.deployment(x.s), x.in, w.inspect(t, id), rec, w.rules())
		w.ok(err)
		if len(ds) != x.n {
			t.Errorf("%s: %v", name, ds)
		}
		raw, err := json.Marshal(ds)
		w.ok(err)
		if strings.Contains(string(raw), "hunter2") || strings.Contains(string(raw), "BEGIN") || strings.Contains(string(raw), "visible-in") {
			t.Errorf("%s: a difference shows a value: %s", name, raw)
		}
	}
	{
		blind := w.inputs(s)
		blind.Digest = nil
		for f, v := range convert.Observed(w.inspect(t, id), blind) {
			if strings.Contains(v, "hunter2") {
				t.Errorf("%s shows the value", f)
			}
		}
	}
}

// TestS36AnUpgradeReplacesNothing reads records as an older agent left them, and
// as a newer one would: nothing differs by that.
func TestS36AnUpgradeReplacesNothing(t *testing.T) {
	w, s, id, rec := recorded(t)
	edit := func(raw json.RawMessage, change func(m map[string]any)) json.RawMessage {
		var m map[string]any
		w.ok(json.Unmarshal(raw, &m))
		change(m)
		out, err := json.Marshal(m)
		w.ok(err)
		return out
	}
	workspaceOf := func(m map[string]any) map[string]any { return m["workspace"].(map[string]any) }
	for name, change := range map[string]func(r *convert.Record){
		"as it is": func(*convert.Record) {},
		"fields unknown to this agent": func(r *convert.Record) {
			r.Spec = edit(r.Spec, func(m map[string]any) { workspaceOf(m)["future"] = "x"; m["more"] = 1 })
			r.Object = edit(r.Object, func(m map[string]any) { m["Future"] = "x"; m["HostConfig"].(map[string]any)["Future"] = 1 })
			r.Inputs = edit(r.Inputs, func(m map[string]any) { m["future"] = true })
		},
		"fields that the older agent did not have": func(r *convert.Record) {
			r.Spec = edit(r.Spec, func(m map[string]any) {
				for _, k := range []string{"limits", "security", "namespaces"} {
					if sub, _ := workspaceOf(m)[k].(map[string]any); len(sub) == 0 {
						delete(workspaceOf(m), k)
					}
				}
			})
			r.Inputs = edit(r.Inputs, func(m map[string]any) { delete(m, "containers") })
			r.Object = edit(r.Object, func(m map[string]any) {
				h := m["HostConfig"].(map[string]any)
				for _, k := range []string{"CgroupnsMode", "Isolation", "MaskedPaths", "Runtime", "IpcMode", "ShmSize"} {
					delete(h, k)
				}
			})
		},
		"an older engine's document": func(r *convert.Record) {
			r.Object = edit(r.Object, func(m map[string]any) {
				m["HostConfig"].(map[string]any)["LogConfig"] = map[string]any{"Type": "", "Config": nil}
			})
		},
	} {
		old := *rec
		change(&old)
		same(t, name, w.compare(t, s, id, &old))
		// And what changes is still seen.
		next := s
		next.Env = append(next.Env[:len(next.Env):len(next.Env)], spec.Env{Name: "NEW", Value: "1"})
		wantFields(t, w.compare(t, next, id, &old), classes{"env/NEW": diff.Replace})
	}
}

// TestS36ANormalFormMayChange: an engine, or another version of the form, that
// spells a field otherwise on both occasions makes no difference.
func TestS36ANormalFormMayChange(t *testing.T) {
	w, s, id, rec := recorded(t)
	base, err := convert.Baseline(*rec, key)
	w.ok(err)
	in := w.inputs(s)
	d := w.deployment(s)
	in.Wanted = d
	want, err := convert.Workspace(d, in)
	w.ok(err)
	seen := convert.Observed(w.inspect(t, id), in)
	for f := range want {
		if f == "name" {
			continue
		}
		// As if this engine stored something of its own for the field, always.
		was, there := seen[f]
		seen[f], base.Observed[f] = "spelled otherwise", "spelled otherwise"
		same(t, f, diff.Compare(want, seen, base, w.rules()))
		seen[f], base.Observed[f] = was, was
		if !there {
			delete(seen, f)
			delete(base.Observed, f)
		}
	}
}

// TestARecordIsOfOneContainer: that of another one, or one that cannot be read,
// is as good as none, and the reader is told of the latter.
func TestARecordIsOfOneContainer(t *testing.T) {
	w, s, id, rec := recorded(t)
	_, err := w.api.ContainerUpdate(t.Context(), id, client.ContainerUpdateOptions{Resources: convert.Update([]diff.Difference{{Field: "limit/cpu-shares", Class: diff.InPlace}}, w.deployment(func() spec.Workspace { x := s; x.Limits.CPUShares = 99; return x }()), w.inputs(s)).Resources})
	w.ok(err)
	cause := func(r *convert.Record) (diff.Cause, error) {
		ds, err := convert.Compare(w.deployment(s), w.inputs(s), w.inspect(t, id), r, w.rules())
		if len(ds) != 1 {
			t.Fatalf("%v", ds)
		}
		return ds[0].Cause, err
	}
	if c, err := cause(rec); c != diff.Outside || err != nil {
		t.Errorf("its own record: %s, %v", c, err)
	}
	other, broken, later := *rec, *rec, *rec
	other.ID, broken.Spec, later.Version = strings.Repeat("0", 64), json.RawMessage("{"), 99
	if c, err := cause(&other); c != diff.Unknown || err != nil {
		t.Errorf("that of another: %s, %v", c, err)
	}
	for _, r := range []*convert.Record{&broken, &later} {
		if c, err := cause(r); c != diff.Unknown || err == nil {
			t.Errorf("one that cannot be read: %s, %v", c, err)
		}
	}
}

// TestWhatIsNotKnownYet: no form is made of a workspace that names what the
// engine does not have, since it would differ.
func TestWhatIsNotKnownYet(t *testing.T) {
	w := newWorld(t)
	for name, x := range map[string]struct {
		set  func(s *spec.Workspace, in *convert.Inputs)
		says string
	}{
		"image":  {func(_ *spec.Workspace, in *convert.Inputs) { in.Image = nil }, "pulled, built or loaded"},
		"secret": {func(s *spec.Workspace, _ *convert.Inputs) { s.Env = []spec.Env{{Name: "A", Secret: "lost"}} }, "secret store"},
		"content": {func(s *spec.Workspace, _ *convert.Inputs) {
			s.Contents = []spec.Content{{Target: "/a", Secret: "lost"}}
		}, "secret store"},
		"network": {func(s *spec.Workspace, in *convert.Inputs) { front(s); in.Networks = nil }, "made first"},
		"volume": {func(s *spec.Workspace, _ *convert.Inputs) {
			s.Mounts = []spec.Mount{{Type: spec.MountVolume, Source: "lost", Target: "/a"}}
		}, "declare it"},
		"workspace": {func(s *spec.Workspace, in *convert.Inputs) { s.NetworkMode, in.Containers = "workspace:other", nil }, "made first"},
	} {
		s := workspace()
		in := w.inputs(s)
		x.set(&s, &in)
		for what, make := range map[string]func() error{
			"form":    func() error { _, err := convert.Workspace(w.deployment(s), in); return err },
			"request": func() error { _, err := convert.Create(w.deployment(s), convert.CreateInputs{Inputs: in}); return err },
		} {
			if err := make(); err == nil || !strings.Contains(err.Error(), x.says) || !strings.Contains(err.Error(), s.Name) {
				t.Errorf("%s without its %s: %v", what, name, err)
			}
		}
	}
}
