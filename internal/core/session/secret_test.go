package session

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/testkit"
)

// guarded is a sound session with a pod that has a workspace, a volume and a secret.
func guarded() *Spec {
	s := sound()
	s.Created = now
	pod := &s.Parts[1].Pods[0]
	pod.Secrets = []string{"password"}
	pod.Workloads = append(pod.Workloads,
		Workload{Kind: "volume", Name: "data", Spec: json.RawMessage(`{"keep":1000}`)},
		Workload{Kind: "workspace", Name: "web", Spec: json.RawMessage(`{"image":"i","env":[{"name":"PASSWORD","secret":"password"}],"contents":[{"target":"/run/secrets/p","secret":"password"}]}`)})
	return s
}

// TestSecretsAreAPodsOwn: a session names no secrets but those that are made for it, before and after it is bound.
func TestSecretsAreAPodsOwn(t *testing.T) {
	s := guarded()
	testkit.Must(t, Validate("lab", s, now))
	testkit.Must(t, s.Bind("lab"))
	testkit.Must(t, Validate("lab", s, now))
	naming := func(s *Spec, secret string) {
		w := &s.Parts[1].Pods[0].Workloads[2]
		w.Spec = json.RawMessage(strings.Replace(string(w.Spec), `"secret":"password"`, `"secret":"`+secret+`"`, 1))
	}
	other := SecretRef{Session: "lab", Created: now.Add(time.Second), Part: "web", Pod: "web", Name: "password"}
	for _, c := range []struct {
		change func(*Spec)
		want   string
	}{
		{func(s *Spec) { naming(s, "db-password") }, `parts[1].pods[0].workloads[2]: workspace/web names secret "db-password": a session has no secrets but its own`},
		{func(s *Spec) { naming(s, other.String()) }, "a session has no secrets but its own"},
		{func(s *Spec) { s.Parts[0].Pods[0].Secrets = []string{"password"} }, `parts[0].pods[0].secrets[0]: no workload of pod db names "password"`},
		{func(s *Spec) {
			s.Parts[1].Pods[0].Secrets = append(s.Parts[1].Pods[0].Secrets, "password", "a/b")
		}, "parts[1].pods[0].secrets[1]: password is there twice"},
		{func(s *Spec) { s.Parts[1].Pods[0].Secrets[0] = "a/b" }, "parts[1].pods[0].secrets[0]: "},
		{func(s *Spec) { s.Parts[1].Pods[0].Secrets = make([]string, MaxSecrets+1) }, "parts[1].pods[0].secrets: there are 33; expected at most 32"},
	} {
		s := guarded()
		c.change(s)
		err := Validate("lab", s, now)
		p, ok := errors.AsType[Problems](err)
		if !ok || !strings.Contains(p.Error(), c.want) {
			t.Errorf("want %s\ngot  %v", c.want, err)
		}
	}
}

// TestBind: workloads have references in place of names, and volumes titles of this life.
func TestBind(t *testing.T) {
	s := guarded()
	testkit.Must(t, Validate("lab", s, now))
	testkit.Must(t, s.Bind("lab"))
	refs := s.Secrets("lab")
	if len(refs) != 1 || refs[0].Part != "web" || refs[0].Pod != "web" || refs[0].Name != "password" {
		t.Fatalf("%+v", refs)
	}
	var w spec.Workspace
	testkit.Must(t, json.Unmarshal(s.Parts[1].Pods[0].Workloads[2].Spec, &w))
	if got := refs[0].String(); w.Env[0].Secret != got || w.Contents[0].Secret != got || !strings.HasPrefix(got, "session/lab/") {
		t.Errorf("%+v", w)
	}
	volume := func(s *Spec) (v spec.Volume) {
		testkit.Must(t, json.Unmarshal(s.Parts[1].Pods[0].Workloads[1].Spec, &v))
		return v
	}
	v := volume(s)
	if v.Title == "" || v.Title == "data" || v.Labels[spec.LabelPod] != "lab/web/web" || v.Keep != 1000 {
		t.Errorf("%+v", v)
	}
	bound := string(s.Parts[1].Pods[0].Workloads[2].Spec)
	testkit.Must(t, s.Bind("lab"))
	if again := string(s.Parts[1].Pods[0].Workloads[2].Spec); again != bound || volume(s).Title != v.Title {
		t.Errorf("bound again it is %s", again)
	}
	later := guarded()
	later.Created = now.Add(time.Millisecond)
	testkit.Must(t, later.Bind("lab"))
	if volume(later).Title == v.Title || later.Secrets("lab")[0].String() == refs[0].String() {
		t.Error("a later session of the name has what the one before has")
	}
	if long := titleOf(strings.Repeat("x", 62)+"a", "life"); len(long) > 63 || long == titleOf(strings.Repeat("x", 62)+"b", "life") {
		t.Errorf("a long title is %s", long)
	}
}

// TestSecretRefs: each secret of each pod of each life has another reference and another value, which the key alone makes.
func TestSecretRefs(t *testing.T) {
	ref := SecretRef{Session: "lab", Created: now, Part: "a", Pod: "b", Name: "c"}
	seen := map[string]bool{}
	for _, change := range []func(*SecretRef){
		func(*SecretRef) {}, func(r *SecretRef) { r.Session = "l" }, func(r *SecretRef) { r.Created = now.Add(time.Millisecond) },
		func(r *SecretRef) { r.Part = "x" }, func(r *SecretRef) { r.Pod = "x" }, func(r *SecretRef) { r.Name = "x" },
	} {
		r := ref
		change(&r)
		got, ok := ParseSecret(r.String())
		if !ok || got.String() != r.String() || !got.Created.Equal(r.Created) {
			t.Errorf("%s is read as %+v", r, got)
		}
		for _, key := range []string{"one", "two"} {
			v := r.Value([]byte(key))
			if seen[v] || len(v) != 40 || v != got.Value([]byte(key)) {
				t.Errorf("%s under %s is %s", r, key, v)
			}
			seen[v] = true
		}
	}
	for _, bad := range []string{"", "password", "session/lab/x/a/b", "session/lab/-/a/b/c", "robot/lab/1/a/b/c", "session/lab/01/a/b/c", ref.String() + "/d"} {
		if r, ok := ParseSecret(bad); ok {
			t.Errorf("%q is read as %+v", bad, r)
		}
	}
}

// FuzzParseSecret: what is read as a reference is written as it was, and is of the session that its owner is.
func FuzzParseSecret(f *testing.F) {
	f.Add(SecretRef{Session: "lab", Created: now, Part: "a", Pod: "b", Name: "c"}.String())
	f.Add("session/lab/-1/a/b/c")
	f.Add("session//0///")
	f.Fuzz(func(t *testing.T, text string) {
		ref, ok := ParseSecret(text)
		of, session := spec.SecretOwner(text)
		if ok && (ref.String() != text || !session || of != spec.SessionOwner(ref.Session)) {
			t.Errorf("%q is read as %+v of %s", text, ref, of)
		}
	})
}
