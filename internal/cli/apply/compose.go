package apply

import "github.com/steadyfleet/steady/internal/release/compose"

// ComposeOptions are what a Compose file depends on besides itself.
type ComposeOptions struct {
	Host     string
	Profiles []string
	Environ  map[string]string
}

// ReadCompose reads a Compose file of a folder as resources of one host.
func ReadCompose(file string, o ComposeOptions) (out []Resource, problems []Problem, err error) {
	set, problems, err := compose.LoadFile(file, compose.Options{Environ: o.Environ, Profiles: o.Profiles})
	if set == nil {
		return nil, problems, err
	}
	for id, value := range set.All() {
		r, err := Of(o.Host, id.Kind, id.Name, value)
		if err != nil {
			return nil, problems, err
		}
		out = append(out, r)
	}
	return out, problems, nil
}
