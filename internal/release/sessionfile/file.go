package apply

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/core/fleet"
	placement "github.com/steadyfleet/steady/internal/core/place"
	"github.com/steadyfleet/steady/internal/core/session"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/strictyaml"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// cleanup is how long a session may take to go where its file says no cleanupDeadline.
const cleanup = 15 * time.Minute

// sessionDocument is a session as people write it.
type sessionDocument struct {
	Name     string `json:"name"`
	Timeslot struct {
		ProvisionAt     string `json:"provisionAt"`
		Start           string `json:"start"`
		End             string `json:"end"`
		CleanupDeadline string `json:"cleanupDeadline"`
	} `json:"timeslot"`
	OnFailure engine.FailureAction `json:"onFailure"`
	Parts     []struct {
		Name  string `json:"name"`
		After []struct {
			Part, Phase, At, Event string
		} `json:"after"`
		OnFailure engine.FailureAction `json:"onFailure"`
		Pods      []podDocument        `json:"pods"`
		Phases    []struct {
			Name    string        `json:"name"`
			Call    *session.Call `json:"call"`
			Await   string        `json:"await"`
			Timeout string        `json:"timeout"`
			Retries int           `json:"retries"`
		} `json:"phases"`
	} `json:"parts"`
}

type podDocument struct {
	Name         string            `json:"name"`
	Compose      any               `json:"compose"` // a file, or what would be in it
	CPUs         *float64          `json:"cpus"`
	Memory       string            `json:"memory"`
	GPUs         *gpuDocument      `json:"gpus"`
	Arch         string            `json:"arch"`
	Selector     *fleet.Selector   `json:"selector"`
	Spread       *placement.Spread `json:"spread"`
	AntiAffinity []string          `json:"antiAffinity"`
}

type gpuDocument struct {
	Count  int    `json:"count"`
	Vendor string `json:"vendor"`
	Model  string `json:"model"`
	Memory string `json:"memory"`
}

// sessionReader reads one file.
type sessionReader struct {
	file     string
	data     []byte
	now      time.Time
	doc      *strictyaml.Doc
	name     string
	problems []Problem
}

// ReadSession reads the file of a session; times in it are relative to now. What is wrong is found here with its
// line, before any server is asked.
func ReadSession(file string, data []byte, now time.Time) (name string, n operator.NewSession, problems []Problem) {
	r := &sessionReader{file: file, data: data, now: now.UTC().Truncate(time.Second)}
	doc, problems := strictyaml.Parse(file, data)
	if doc == nil || strictyaml.Fatal(problems) {
		return "", n, problems
	}
	if problems := doc.Check(sessionSchema()); len(problems) > 0 {
		return "", n, problems
	}
	var in sessionDocument
	if err := doc.DecodeKnown(&in); err != nil {
		return "", n, []Problem{{File: file, Message: err.Error()}}
	}
	r.doc, r.name = doc, in.Name
	n = r.session(&in)
	s := n.Spec()
	if found, ok := session.Validate(in.Name, &s, r.now).(session.Problems); ok {
		r.add(found)
	}
	return in.Name, n, strictyaml.Sort(r.problems)
}

// add takes in what is wrong with the session, but where the reason is that a value could not be read.
func (r *sessionReader) add(found session.Problems) {
	unread := r.problems
	for _, x := range found {
		p := r.doc.At(pathInFile(x.Path), x.Message)
		follows := strings.Contains(x.Path, ".workloads") && strictyaml.Fatal(unread) ||
			slices.ContainsFunc(unread, func(u Problem) bool { return u.Line == p.Line && u.Column == p.Column })
		if !follows {
			r.problems = append(r.problems, p)
		}
	}
}

func (r *sessionReader) addf(path []string, format string, args ...any) {
	r.problems = append(r.problems, r.doc.At(path, fmt.Sprintf(format, args...)))
}

// pathInFile is where a file has what the path of a session names.
func pathInFile(path string) []string {
	path = strings.NewReplacer("[", ".", "]", "").Replace(path)
	if before, _, found := strings.Cut(path, ".workloads"); found {
		path = before + ".compose"
	}
	return strings.Split(path, ".")
}

func (r *sessionReader) session(in *sessionDocument) (n operator.NewSession) {
	t := &in.Timeslot
	n.Timeslot.ProvisionAt = r.at(t.ProvisionAt, r.now, "timeslot", "provisionAt")
	n.Timeslot.Start = r.at(t.Start, n.Timeslot.ProvisionAt, "timeslot", "start")
	n.Timeslot.End = r.at(t.End, r.now, "timeslot", "end")
	n.Timeslot.CleanupDeadline = r.at(t.CleanupDeadline, n.Timeslot.End.Add(cleanup), "timeslot", "cleanupDeadline")
	n.OnFailure = in.OnFailure
	for i := range in.Parts {
		p := &in.Parts[i]
		out := session.Part{Name: p.Name, OnFailure: p.OnFailure}
		path := []string{"parts", fmt.Sprint(i)}
		for k, g := range p.After {
			gate := session.Gate{Part: g.Part, Phase: g.Phase, Event: g.Event}
			gate.At = r.at(g.At, time.Time{}, below(path, "after", fmt.Sprint(k), "at")...)
			out.After = append(out.After, gate)
		}
		for k := range p.Pods {
			out.Pods = append(out.Pods, r.pod(p.Name, &p.Pods[k], below(path, "pods", fmt.Sprint(k))))
		}
		for k, ph := range p.Phases {
			phase := session.Phase{Name: ph.Name, Job: ph.Call, Await: ph.Await, Retries: ph.Retries}
			phase.Timeout = r.duration(ph.Timeout, below(path, "phases", fmt.Sprint(k), "timeout"))
			out.Phases = append(out.Phases, phase)
		}
		n.Parts = append(n.Parts, out)
	}
	return n
}

func below(path []string, more ...string) []string {
	return append(path[:len(path):len(path)], more...)
}

// at reads an instant: RFC 3339, or such as in 90m.
func (r *sessionReader) at(text string, otherwise time.Time, path ...string) time.Time {
	if text == "" {
		return otherwise
	}
	if span, ok := strings.CutPrefix(text, "in "); ok {
		return r.now.Add(r.duration(span, path))
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		r.addf(path, "%q is no time: expected one such as %s, or such as in 90m", text, r.now.Format(time.RFC3339))
	}
	return t.UTC()
}

func (r *sessionReader) duration(text string, path []string) time.Duration {
	if text == "" {
		return 0
	}
	d, err := time.ParseDuration(strings.TrimSpace(text))
	if err != nil || d < 0 {
		r.addf(path, "%q is no span of time: expected one such as 90m or 1h30m", text)
	}
	return d
}

func (r *sessionReader) size(text string, path []string) int64 {
	if text == "" {
		return 0
	}
	n, err := ParseSize(text)
	if err != nil {
		r.addf(path, "%v", err)
	}
	return n
}

func (r *sessionReader) pod(part string, in *podDocument, path []string) session.Pod {
	out := session.Pod{Name: in.Name, Arch: in.Arch, Spread: in.Spread, AntiAffinity: in.AntiAffinity}
	if in.Selector != nil {
		out.Selector = *in.Selector
	}
	limits := r.compose(part, in, &out, path)
	out.Resources = placement.Resources{MilliCPU: limits.NanoCPUs / 1e6, Memory: limits.Memory}
	if in.CPUs != nil {
		out.Resources.MilliCPU = int64(*in.CPUs * 1000)
	}
	if in.Memory != "" {
		out.Resources.Memory = r.size(in.Memory, below(path, "memory"))
	}
	if g := in.GPUs; g != nil {
		out.GPU = placement.GPURequest{Count: g.Count, Vendor: g.Vendor, Model: g.Model, Memory: r.size(g.Memory, below(path, "gpus", "memory"))}
	}
	return out
}

// compose reads a pod's fragment, and returns the sum of the limits in it.
func (r *sessionReader) compose(part string, in *podDocument, out *session.Pod, path []string) (sum spec.Limits) {
	file, at, err := r.fragment(in.Compose, below(path, "compose"))
	if err != nil {
		r.addf(below(path, "compose"), "%v", err)
		return sum
	}
	prefix := prefixOf(r.name, part, in.Name)
	if at != nil {
		defer os.RemoveAll(filepath.Dir(file))
	}
	list, problems, err := ReadCompose(file, ComposeOptions{Name: strings.TrimSuffix(prefix, "-"), Prefix: prefix})
	if err != nil {
		r.addf(below(path, "compose"), "%v", err)
		return sum
	}
	for _, p := range problems {
		if at != nil {
			p = at(p)
		}
		r.problems = append(r.problems, p)
	}
	for _, x := range Order(list) {
		if !strings.HasPrefix(x.Name, prefix) {
			r.addf(below(path, "compose"), "%s is of a kind that sessions do not take: expected services, networks and volumes", x.ID)
			continue
		}
		out.Workloads = append(out.Workloads, session.Workload{Kind: x.Kind, Name: x.Name, Spec: x.Spec})
		var w spec.Workspace
		if x.Kind == spec.KindWorkspace && json.Unmarshal(x.Spec, &w) == nil {
			sum.NanoCPUs, sum.Memory = sum.NanoCPUs+w.Limits.NanoCPUs, sum.Memory+w.Limits.Memory
		}
	}
	return sum
}

// fragment is the file of a pod's Compose fragment. At is nil, or where in the session's file a finding in it
// belongs: then the file is one that was made for it.
func (r *sessionReader) fragment(v any, path []string) (file string, at func(Problem) Problem, err error) {
	if name, ok := v.(string); ok {
		if !filepath.IsAbs(name) {
			name = filepath.Join(filepath.Dir(r.file), name)
		}
		return name, nil, nil
	}
	dir, err := os.MkdirTemp("", "steady-session-")
	if err != nil {
		return "", nil, err
	}
	key := r.doc.AtKey(path, "")
	text, same := r.block(key.Line, key.Column)
	if !same {
		if text, err = json.Marshal(v); err != nil {
			return "", nil, err
		}
	}
	file = filepath.Join(dir, "compose.yaml")
	return file, func(p Problem) Problem {
		if p.File = r.file; !same || p.Line == 0 {
			p.Line, p.Column = key.Line, key.Column
		}
		return p
	}, os.WriteFile(file, text, 0o600)
}

var blockKey = regexp.MustCompile(`compose:\s*(#.*)?$`)

// block cuts the mapping below a key out of the file, with its lines and columns. It is not the same
// where the mapping is not written in lines of its own.
func (r *sessionReader) block(line, column int) (text []byte, same bool) {
	lines := strings.Split(string(r.data), "\n")
	if !blockKey.MatchString(strings.TrimRight(lines[line-1][column-1:], "\r")) {
		return nil, false
	}
	out := strings.Repeat("\n", line)
	for _, l := range lines[line:] {
		words := strings.TrimLeft(l, " ")
		if said := strings.TrimSpace(words) != "" && !strings.HasPrefix(words, "#"); said && len(l)-len(words) < column {
			break
		}
		out += l + "\n"
	}
	return []byte(out), true
}

// maxPrefix leaves room for names of their own.
const maxPrefix = 32

// prefixOf is before the names of all that is of a pod, on its host. No two pods have the same.
func prefixOf(names ...string) string {
	all := strings.Join(names, "-")
	if len(all) < maxPrefix && strings.Count(all, "-") == len(names)-1 {
		return all + "-"
	}
	sum := sha256.Sum256([]byte(strings.Join(names, "/")))
	return strings.TrimRight(all[:min(len(all), maxPrefix-10)], "-") + "-" + hex.EncodeToString(sum[:4]) + "-"
}
