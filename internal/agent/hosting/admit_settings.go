package hosting

import (
	"errors"
	"fmt"

	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/wire"
)

// AdmitSettings returns the settings that a host takes; nil are the defaults. The error
// says what is not taken and why; the settings are good with it as well, with the
// defaults in place of what it names. What is out of bounds is not taken at all.
func AdmitSettings(s *wire.Settings, d *fleet.Delegation) (fleet.Settings, error) {
	if s == nil {
		return fleet.Settings{}, nil
	}
	asked := s.Tuned()
	if err := asked.Check(); err != nil {
		return fleet.Settings{}, fmt.Errorf("settings of version %d: %w", s.Version, err)
	}
	var errs []error
	refuse := func(what string) {
		errs = append(errs, fmt.Errorf("settings of version %d: this host does not allow the server %s; its signed declaration must say so: add %s to \"allow\" of its entry under hosts in fleet.yaml, and roll out the release", s.Version, what, what))
	}
	taken := asked
	if asked.Disabled() && !d.Allows(fleet.AllowDisable) {
		taken.Enabled = nil
		refuse(fleet.AllowDisable)
	}
	if !asked.OnlyEnabled(&fleet.Settings{}) && !d.Allows(fleet.AllowSettings) {
		taken = fleet.Settings{Enabled: taken.Enabled}
		refuse(fleet.AllowSettings)
	}
	return taken, errors.Join(errs...)
}
