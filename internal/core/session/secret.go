package session

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// MaxSecrets of a pod.
const MaxSecrets = 32

// SecretRef names a secret of a pod in one life of a session. Workloads, rows and layers have it in
// place of the value.
type SecretRef struct {
	Session         string
	Created         time.Time
	Part, Pod, Name string
}

// String is the reference as workloads have it.
func (r SecretRef) String() string {
	return strings.Join([]string{string(spec.SessionOwner(r.Session)), lifeOf(r.Created), r.Part, r.Pod, r.Name}, "/")
}

// ParseSecret reads a reference; false if it is none.
func ParseSecret(ref string) (r SecretRef, ok bool) {
	f := strings.Split(ref, "/")
	if len(f) != 6 {
		return r, false
	}
	ms, err := strconv.ParseInt(f[2], 36, 64)
	r = SecretRef{Session: f[1], Created: time.UnixMilli(ms), Part: f[3], Pod: f[4], Name: f[5]}
	return r, err == nil && r.String() == ref
}

// Value is the secret itself, which nobody keeps: whoever has the key makes it again. Names have no
// blanks, so no token for events is made of the same text.
func (r SecretRef) Value(key []byte) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("secret of a session " + r.String()))
	return hex.EncodeToString(mac.Sum(nil)[:20])
}

// Rows of the session, the part and the pod that the secret is of.
func (r SecretRef) Rows() [3]engine.Ref {
	part := below(Ref(r.Session), KindPart, r.Part)
	return [3]engine.Ref{Ref(r.Session), part, below(part, KindPod, r.Pod)}
}

// Valid reports whether what the secret is of is there, in that life, and does not end.
func (r SecretRef) Valid(rows Rows) bool {
	for i, ref := range r.Rows() {
		row, there := find(rows, ref)
		if !there || row.Delete || row.Phase.Terminal() {
			return false
		}
		var s struct {
			Created time.Time `json:"created"`
		}
		if i == 0 && (json.Unmarshal(row.Desired, &s) != nil || lifeOf(s.Created) != lifeOf(r.Created)) {
			return false
		}
	}
	return true
}

// lifeOf tells a session from others of its name.
func lifeOf(created time.Time) string { return strconv.FormatInt(created.UnixMilli(), 36) }

// Secrets lists the secrets of a session by part, pod and name.
func (s *Spec) Secrets(name string) (out []SecretRef) {
	for i := range s.Parts {
		for k := range s.Parts[i].Pods {
			for _, n := range s.Parts[i].Pods[k].Secrets {
				out = append(out, s.secret(name, i, k, n))
			}
		}
	}
	return out
}

func (s *Spec) secret(session string, part, pod int, name string) SecretRef {
	p := &s.Parts[part]
	return SecretRef{Session: session, Created: s.Created, Part: p.Name, Pod: p.Pods[pod].Name, Name: name}
}

// secrets checks that pods name no secrets but their own.
func (s *Spec) secrets(p *Problems, session string) {
	for i := range s.Parts {
		for k := range s.Parts[i].Pods {
			pod, path := &s.Parts[i].Pods[k], fmt.Sprintf("parts[%d].pods[%d]", i, k)
			if len(pod.Secrets) > MaxSecrets {
				p.add(path+".secrets", "there are %d; expected at most %d", len(pod.Secrets), MaxSecrets)
			}
			own := map[string]string{} // also as it is bound
			for n, name := range pod.Secrets {
				at := fmt.Sprintf("%s.secrets[%d]", path, n)
				if err := fleet.CheckName(name); err != nil {
					p.add(at, "%v", err)
				} else if own[name] != "" {
					p.add(at, "%s is there twice", name)
				}
				own[name], own[s.secret(session, i, k, name).String()] = name, name
			}
			pod.secrets(p, path, own)
		}
	}
}

func (pod *Pod) secrets(p *Problems, path string, own map[string]string) {
	used := map[string]bool{}
	for i := range pod.Workloads {
		w := &pod.Workloads[i]
		for _, name := range secretsOf(w) {
			if own[name] == "" {
				p.add(fmt.Sprintf("%s.workloads[%d]", path, i), "%s names secret %q: a session has no secrets but its own, which are made for it; name it under secrets of pod %s", w.ID(), name, pod.Name)
			}
			used[own[name]] = true
		}
	}
	for i, name := range pod.Secrets {
		if !used[name] {
			p.add(fmt.Sprintf("%s.secrets[%d]", path, i), "no workload of pod %s names %q: expected one that does, as a variable or a file", pod.Name, name)
		}
	}
}

// secretsOf lists what a workload names of secrets; of one that cannot be read, which is said elsewhere, none.
func secretsOf(w *Workload) []string {
	var of spec.Workspace
	if w.Kind != spec.KindWorkspace || json.Unmarshal(w.Spec, &of) != nil {
		return nil
	}
	return of.Secrets()
}

// Bind ties the workloads of a session that is created to its life: secrets get their references, and
// volumes titles that no other session has, so that none finds the data of another. What shares
// memory with the session stays as it is.
func (s *Spec) Bind(session string) error {
	s.Parts = slices.Clone(s.Parts)
	for i := range s.Parts {
		s.Parts[i].Pods = slices.Clone(s.Parts[i].Pods)
		for k := range s.Parts[i].Pods {
			pod := &s.Parts[i].Pods[k]
			pod.Workloads = slices.Clone(pod.Workloads)
			refs := map[string]string{}
			for _, name := range pod.Secrets {
				refs[name] = s.secret(session, i, k, name).String()
			}
			label := session + "/" + s.Parts[i].Name + "/" + pod.Name
			for n := range pod.Workloads {
				if err := pod.Workloads[n].bind(refs, lifeOf(s.Created), label); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (w *Workload) bind(refs map[string]string, life, pod string) (err error) {
	switch w.Kind {
	case spec.KindWorkspace:
		var x spec.Workspace
		if err = json.Unmarshal(w.Spec, &x); err != nil {
			return err
		}
		for i := range x.Env {
			x.Env[i].Secret = refOr(refs, x.Env[i].Secret)
		}
		for i := range x.Contents {
			x.Contents[i].Secret = refOr(refs, x.Contents[i].Secret)
		}
		w.Spec, err = json.Marshal(&x)
	case spec.KindVolume:
		var x spec.Volume
		if err = json.Unmarshal(w.Spec, &x); err != nil || x.External != "" {
			return err
		}
		if x.Labels == nil {
			x.Labels = map[string]string{}
		}
		x.Title, x.Labels[spec.LabelPod] = titleOf(w.Name, life), pod
		w.Spec, err = json.Marshal(&x)
	}
	return err
}

func refOr(refs map[string]string, name string) string {
	if ref := refs[name]; ref != "" {
		return ref
	}
	return name
}

// maxTitle leaves room for the life, within what is a name.
const maxTitle = 52

func titleOf(name, life string) string {
	if len(name) > maxTitle {
		sum := sha256.Sum256([]byte(name))
		name = name[:maxTitle-9] + "-" + hex.EncodeToString(sum[:4])
	}
	return name + "-" + life
}
