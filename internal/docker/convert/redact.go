package convert

import "github.com/steadyfleet/steady/internal/core/secret"

// option is a value of an option, a label or a variable as it may be shown.
func (in *Inputs) option(name, value string) string {
	if secret.Likely(name, value) {
		return in.digest(value)
	}
	return plain(value)
}
