package sessionfile

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	placement "github.com/steadyfleet/steady/internal/core/place"
	"github.com/steadyfleet/steady/internal/core/session"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/release/compose"
)

func (r *reader) pod(part string, in *podDocument, path []string) session.Pod {
	out := session.Pod{Name: in.Name, Arch: in.Arch, Spread: in.Spread, AntiAffinity: in.AntiAffinity, Secrets: in.Secrets}
	if in.Selector != nil {
		out.Selector = *in.Selector
	}
	limits, gpus := r.compose(part, in, &out, path)
	r.volumes(part, in, &out, path)
	if gpus > 0 {
		out.GPU = placement.GPURequest{Count: gpus, Vendor: session.NVIDIA}
	}
	out.Resources = placement.Resources{MilliCPU: limits.NanoCPUs / 1e6, Memory: limits.Memory}
	if in.CPUs != nil {
		out.Resources.MilliCPU = int64(*in.CPUs * 1000)
	}
	if in.Memory != "" {
		out.Resources.Memory = r.size(in.Memory, below(path, "memory"))
	}
	if g := in.GPUs; g != nil {
		vendor := g.Vendor
		if vendor == "" {
			vendor = out.GPU.Vendor
		}
		out.GPU = placement.GPURequest{Count: g.Count, Vendor: vendor, Model: g.Model, Memory: r.size(g.Memory, below(path, "gpus", "memory"))}
	}
	return out
}

// compose reads a pod's fragment, and returns the sum of the limits and of the GPUs in it.
func (r *reader) compose(part string, in *podDocument, out *session.Pod, path []string) (sum spec.Limits, gpus int) {
	file, at, err := r.fragment(in.Compose, below(path, "compose"))
	if err != nil {
		r.addf(below(path, "compose"), "%v", err)
		return sum, gpus
	}
	prefix := prefixOf(r.name, part, in.Name)
	if at != nil {
		defer os.RemoveAll(filepath.Dir(file))
	}
	set, problems, err := compose.LoadFile(file, compose.Options{Name: strings.TrimSuffix(prefix, "-"), Prefix: prefix})
	if err != nil {
		r.addf(below(path, "compose"), "%v", err)
		return sum, gpus
	}
	for _, p := range problems {
		if at != nil {
			p = at(p)
		}
		r.problems = append(r.problems, p)
	}
	if set == nil {
		return sum, gpus
	}
	all := maps.Collect(set.All())
	for _, id := range spec.Ordered(set) {
		if !strings.HasPrefix(id.Name, prefix) {
			r.addf(below(path, "compose"), "%s is of a kind that sessions do not take: expected services, networks and volumes", id)
			continue
		}
		raw, err := json.Marshal(all[id])
		if err != nil {
			r.addf(below(path, "compose"), "%s: %v", id, err)
			continue
		}
		out.Workloads = append(out.Workloads, session.Workload{Kind: id.Kind, Name: id.Name, Spec: raw})
		if w, is := all[id].(*spec.Workspace); is {
			sum.NanoCPUs, sum.Memory = sum.NanoCPUs+w.Limits.NanoCPUs, sum.Memory+w.Limits.Memory
			n, _ := session.GPUsOf(w) // what is wrong with them, Validate finds
			gpus += n
		}
	}
	return sum, gpus
}

// fragment is the file of a pod's Compose fragment. At is nil, or where in the session's file a finding in it
// belongs: then the file is one that was made for it.
func (r *reader) fragment(v any, path []string) (file string, at func(Problem) Problem, err error) {
	if name, ok := v.(string); ok {
		if r.data == nil {
			return "", nil, errors.New("a template carries no files: expected what would be in the Compose file")
		}
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
func (r *reader) block(line, column int) (text []byte, same bool) {
	if r.data == nil { // parameters are in the place of what was written
		return nil, false
	}
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
