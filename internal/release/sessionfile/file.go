// Package sessionfile reads sessions, and templates of them, as people write them.
package sessionfile

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/fleet"
	placement "github.com/steadyfleet/steady/internal/core/place"
	"github.com/steadyfleet/steady/internal/core/session"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/strictyaml"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// cleanup is how long a session may take to go where its file says no cleanupDeadline.
const cleanup = 15 * time.Minute

// Problem is one finding, with its file, line and column.
type Problem = strictyaml.Problem

// sessionDocument is a session as people write it.
type sessionDocument struct {
	Name       string         `json:"name"`
	Timeslot   slotDocument   `json:"timeslot"`
	Template   string         `json:"template"`
	Parameters map[string]any `json:"parameters"`
	partsDocument
}

type slotDocument struct {
	ProvisionAt     string `json:"provisionAt"`
	Start           string `json:"start"`
	End             string `json:"end"`
	CleanupDeadline string `json:"cleanupDeadline"`
}

// partsDocument is what sessions and templates have alike.
type partsDocument struct {
	Calls     []string             `json:"calls"`
	OnFailure engine.FailureAction `json:"onFailure"`
	Parts     []partDocument       `json:"parts"`
}

type partDocument struct {
	Name  string `json:"name"`
	After []struct {
		Part, Phase, At, Event string
	} `json:"after"`
	OnFailure  engine.FailureAction `json:"onFailure"`
	Moves      bool                 `json:"moves"`
	Duplicates string               `json:"duplicates"`
	Pods       []podDocument        `json:"pods"`
	Phases     []struct {
		Name    string           `json:"name"`
		Call    *session.Call    `json:"call"`
		Command *commandDocument `json:"command"`
		Await   string           `json:"await"`
		Timeout string           `json:"timeout"`
		Retries *int             `json:"retries"`
	} `json:"phases"`
}

type commandDocument struct {
	Pod     string   `json:"pod"`
	Service string   `json:"service"`
	Run     []string `json:"run"`
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
	Secrets      []string          `json:"secrets"`
	Volumes      []volumeDocument  `json:"volumes"`
}

type gpuDocument struct {
	Count  int    `json:"count"`
	Vendor string `json:"vendor"`
	Model  string `json:"model"`
	Memory string `json:"memory"`
}

// reader reads one file.
type reader struct {
	file     string
	data     []byte
	now      time.Time
	doc      *strictyaml.Doc
	name     string
	problems []Problem
}

// File is what the file of a session asks for: the parts in it, or a template of the server.
type File struct {
	Name       string
	Spec       session.Spec // without parts if it is of a template
	Template   string
	Parameters map[string]any // of the template
	doc        *strictyaml.Doc
}

// Find places what is wrong with a session in its file.
func (f *File) Find(found session.Problems) (out []Problem) {
	for _, x := range found {
		out = append(out, f.doc.At(pathInFile(x.Path), x.Message))
	}
	return strictyaml.Sort(out)
}

// Read reads the file of a session; times in it are relative to now. What is wrong is found here with its
// line, before any server is asked. The file is nil when a problem is more than a warning.
func Read(file string, data []byte, now time.Time) (*File, []Problem) {
	r := &reader{file: file, data: data, now: now.UTC().Truncate(time.Second)}
	var in sessionDocument
	if problems := r.parse(&in, sessionSchema()); problems != nil {
		return nil, problems
	}
	f := &File{Name: in.Name, Template: in.Template, Parameters: in.Parameters, doc: r.doc}
	r.name = in.Name
	f.Spec = r.session(&in.partsDocument)
	f.Spec.Timeslot = r.slot(&in.Timeslot)
	f.Spec.Template = in.Template
	switch of := in.Template != ""; {
	case of && (len(in.Parts) > 0 || len(in.Calls) > 0 || in.OnFailure != ""):
		r.addf([]string{"template"}, "parts, calls and onFailure are those of the template: leave them out, or leave the template out")
	case !of && in.Parameters != nil:
		r.addf([]string{"parameters"}, "only a template has parameters: name one with template")
	default:
		r.validate(in.Name, &f.Spec)
	}
	if strictyaml.Fatal(r.problems) {
		return nil, strictyaml.Sort(r.problems)
	}
	return f, strictyaml.Sort(r.problems)
}

// validate finds what is wrong with a session as a whole. One of a template has its parts there.
func (r *reader) validate(name string, s *session.Spec) {
	check := *s
	if s.Template != "" {
		check.Parts = []session.Part{{Name: "part", Phases: []session.Phase{{Name: "phase", Await: "event", Timeout: 1}}}}
	}
	for _, err := range []error{session.Validate(name, &check, r.now), session.CheckNew(s, r.now)} {
		if found, ok := err.(session.Problems); ok {
			r.add(found)
		}
	}
	if s.Template == "" {
		*s = check
	}
}

// parse reads a document of a schema. It returns what is wrong, nil if nothing is.
func (r *reader) parse(into any, schema *strictyaml.Schema) []Problem {
	doc, problems := strictyaml.Parse(r.file, r.data)
	if doc == nil || strictyaml.Fatal(problems) {
		return problems
	}
	if problems := doc.Check(schema); len(problems) > 0 {
		return problems
	}
	if err := doc.DecodeKnown(into); err != nil {
		return []Problem{{File: r.file, Message: err.Error()}}
	}
	r.doc = doc
	return nil
}

// add takes in what is wrong with the session, but where the reason is that a value could not be read.
func (r *reader) add(found session.Problems) {
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

func (r *reader) addf(path []string, format string, args ...any) {
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

func (r *reader) slot(t *slotDocument) (out session.Timeslot) {
	out.ProvisionAt = r.at(t.ProvisionAt, r.now, "timeslot", "provisionAt")
	out.Start = r.at(t.Start, out.ProvisionAt, "timeslot", "start")
	out.End = r.at(t.End, r.now, "timeslot", "end")
	out.CleanupDeadline = r.at(t.CleanupDeadline, out.End.Add(cleanup), "timeslot", "cleanupDeadline")
	return out
}

func (r *reader) session(in *partsDocument) session.Spec {
	out := session.Spec{Calls: in.Calls, OnFailure: in.OnFailure}
	for i := range in.Parts {
		out.Parts = append(out.Parts, r.part(&in.Parts[i], []string{"parts", fmt.Sprint(i)}))
	}
	return out
}

func (r *reader) part(p *partDocument, path []string) session.Part {
	out := session.Part{Name: p.Name, OnFailure: p.OnFailure, Moves: p.Moves, Duplicates: p.Duplicates}
	for k, g := range p.After {
		gate := session.Gate{Part: g.Part, Phase: g.Phase, Event: g.Event}
		gate.At = r.at(g.At, time.Time{}, below(path, "after", fmt.Sprint(k), "at")...)
		out.After = append(out.After, gate)
	}
	for k := range p.Pods {
		out.Pods = append(out.Pods, r.pod(p.Name, &p.Pods[k], below(path, "pods", fmt.Sprint(k))))
	}
	for k, ph := range p.Phases {
		phase := session.Phase{Name: ph.Name, Call: ph.Call, Await: ph.Await, Retries: ph.Retries}
		phase.Timeout = clock.FromStd(r.duration(ph.Timeout, below(path, "phases", fmt.Sprint(k), "timeout")))
		if c := ph.Command; c != nil {
			phase.Command = &session.Command{Pod: c.Pod, Workspace: prefixOf(r.name, p.Name, c.Pod) + c.Service, Argv: c.Run}
		}
		out.Phases = append(out.Phases, phase)
	}
	return out
}

func below(path []string, more ...string) []string {
	return append(path[:len(path):len(path)], more...)
}

// at reads an instant: RFC 3339, or such as in 90m.
func (r *reader) at(text string, otherwise time.Time, path ...string) time.Time {
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

func (r *reader) duration(text string, path []string) time.Duration {
	if text == "" {
		return 0
	}
	text = strings.TrimSpace(text)
	d, err := time.ParseDuration(text)
	if days, whole := strings.CutSuffix(text, "d"); whole {
		var n uint64
		n, err = strconv.ParseUint(days, 10, 16)
		d = time.Duration(n) * 24 * time.Hour
	}
	if err != nil || d < 0 {
		r.addf(path, "%q is no span of time: expected one such as 90m or 1h30m", text)
	}
	return d
}

func (r *reader) size(text string, path []string) int64 {
	if text == "" {
		return 0
	}
	n, err := spec.ParseSize(text)
	if err != nil {
		r.addf(path, "%v", err)
	}
	return n
}
