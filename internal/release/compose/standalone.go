package compose

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/steadyfleet/steady/internal/core/imageref"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/strictyaml"
)

// LoadFile reads a Compose file of a folder as resources that are set one by one. They
// carry no files, so that what needs one is refused with its name. The set is nil when a
// problem is more than a warning.
func LoadFile(file string, o Options) (*spec.Set, []Problem, error) {
	root, err := os.OpenRoot(filepath.Dir(file))
	if err != nil {
		return nil, nil, err
	}
	defer root.Close()
	abs, err := filepath.Abs(filepath.Dir(file))
	if err != nil {
		return nil, nil, err
	}
	o.Name = cmp.Or(o.Name, filepath.Base(abs))
	loaded, problems := Load(root, []string{filepath.Base(file)}, o)
	for i := range problems {
		if problems[i].File != "" {
			problems[i].File = filepath.Join(filepath.Dir(file), problems[i].File)
		}
	}
	if loaded == nil || strictyaml.Fatal(problems) {
		return nil, problems, nil
	}
	set := &loaded.Set
	for i := range set.Images {
		if b := set.Images[i].Build; b != nil && b.Inline != "" && !usesContext(b.Inline) {
			b.Context = nil
		}
	}
	for _, message := range needFiles(set) {
		problems = append(problems, Problem{File: file, Message: message})
	}
	if len(spec.Dependencies(set)) == 0 {
		problems = append(problems, Problem{File: file, Message: "the file declares nothing that runs: expected a service whose profiles are active"})
	}
	if strictyaml.Fatal(problems) {
		return nil, problems, nil
	}
	return set, problems, nil
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

// needFiles says what of a set needs files that only a bundle carries.
func needFiles(s *spec.Set) []string {
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
