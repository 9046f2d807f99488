package apply

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/steadyfleet/steady/internal/core/imageref"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/release/compose"
	"github.com/steadyfleet/steady/internal/strictyaml"
)

// ComposeOptions are what a Compose file depends on besides itself.
type ComposeOptions struct {
	Host     string
	Name     string // of the project; empty: that of the folder
	Prefix   string // before all names
	Profiles []string
	Environ  map[string]string
}

// ReadCompose reads a Compose file of a folder as resources of one host. The
// managed layer carries no files, so that what needs one is refused with its
// name.
func ReadCompose(file string, o ComposeOptions) (out []Resource, problems []Problem, err error) {
	root, err := os.OpenRoot(filepath.Dir(file))
	if err != nil {
		return nil, nil, err
	}
	defer root.Close()
	abs, err := filepath.Abs(filepath.Dir(file))
	if err != nil {
		return nil, nil, err
	}
	loaded, problems := compose.Load(root, []string{filepath.Base(file)}, compose.Options{
		Name: cmp.Or(o.Name, filepath.Base(abs)), Prefix: o.Prefix, Environ: o.Environ, Profiles: o.Profiles})
	for i := range problems {
		if problems[i].File != "" {
			problems[i].File = filepath.Join(filepath.Dir(file), problems[i].File)
		}
	}
	if loaded == nil || strictyaml.Fatal(problems) {
		return nil, problems, nil
	}
	for i := range loaded.Set.Images {
		if b := loaded.Set.Images[i].Build; b != nil && b.Inline != "" && !usesContext(b.Inline) {
			b.Context = nil
		}
	}
	for _, words := range carried(&loaded.Set) {
		problems = append(problems, Problem{File: file, Message: words})
	}
	if strictyaml.Fatal(problems) {
		return nil, problems, nil
	}
	for id, value := range loaded.Set.All() {
		r, err := Of(o.Host, id.Kind, id.Name, value)
		if err != nil {
			return nil, problems, err
		}
		out = append(out, r)
	}
	if len(out) == 0 {
		problems = append(problems, Problem{File: file, Message: "the file declares nothing that runs: expected a service whose profiles are active"})
	}
	return out, problems, nil
}

// usesContext reports whether a Dockerfile may read files of its build context.
func usesContext(dockerfile string) bool {
	for _, line := range imageref.Instructions(dockerfile) {
		words := strings.Fields(line)
		switch strings.ToUpper(words[0]) {
		case "COPY", "ADD":
			if !slices.ContainsFunc(words, func(w string) bool { return strings.HasPrefix(w, "--from=") }) {
				return true
			}
		case "ONBUILD":
			return true
		case "RUN":
			if strings.Contains(line, "--mount") {
				return true
			}
		}
	}
	return false
}

// carried says what of a set needs files that only a bundle carries.
func carried(s *spec.Set) []string {
	const next = "resources that are set one by one carry no files"
	var out []string
	for _, i := range s.Images {
		if i.Build != nil && i.Build.Context != nil {
			out = append(out, fmt.Sprintf("image %s is built from a folder, and %s: expected an image from a registry, a dockerfile_inline that needs no context, or a bundle in a release", i.Name, next))
		}
		if i.Load != nil {
			out = append(out, fmt.Sprintf("image %s is loaded from an archive, and %s: expected an image from a registry, or a bundle in a release", i.Name, next))
		}
	}
	for _, w := range s.Workspaces {
		for _, c := range w.Contents {
			if c.Blob != nil {
				out = append(out, fmt.Sprintf("workspace %s is given the file %s, and %s: expected it in the image, a secret of the host, or a bundle in a release", w.Name, c.Target, next))
			}
		}
	}
	return out
}
