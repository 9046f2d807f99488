package operate

import (
	"fmt"

	"github.com/steadyfleet/steady/internal/api/operator"
)

// showSources prints where releases are looked for; what is wrong has a line of
// its own, because it is long.
func (a verbs) showSources(sources []operator.Source) error {
	if len(sources) == 0 {
		return nil
	}
	var rows [][]string
	for _, s := range sources {
		brought := ""
		if s.Version > 0 {
			brought = fmt.Sprintf("%s, version %d", s.Ref, s.Version)
		}
		rows = append(rows, []string{s.Name, s.State(), brought, s.LastSuccess.String(), s.LastChecked.String()})
	}
	if err := a.Table([]string{"release source", "state", "brought", "last success", "last check"}, rows); err != nil {
		return err
	}
	for _, s := range sources {
		for _, t := range []*operator.SourceTrouble{s.Unfetched, s.Refused} {
			if t != nil {
				a.Printf("  %s, since %s: %s: %s\n", s.Name, t.Since, t.Cause, t.Detail)
			}
		}
		if s.LastError != "" && s.Unfetched == nil && s.Refused == nil {
			a.Printf("  %s: %s\n", s.Name, s.LastError)
		}
	}
	return nil
}
