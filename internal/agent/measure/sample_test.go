package measure

import (
	"strings"
	"testing"
)

func TestCheckRefusesWhatIsOutOfBounds(t *testing.T) {
	for name, s := range map[string]Sample{
		"too large":  {Workspaces: []Workspace{{MemBytes: new(int64(MaxInteger + 1))}}},
		"negative":   {Host: &Host{CPUPermille: new(int64(-1))}},
		"absolute":   {GPUs: []GPU{{TemperatureC: new(int64(-300))}}},
		"long":       {Engine: &Engine{Version: strings.Repeat("x", MaxText+1)}},
		"not text":   {Runtimes: []string{"\xff"}},
		"many":       {Workspaces: make([]Workspace, MaxWorkspaces+1)},
		"interfaces": {Host: &Host{Interfaces: make([]string, MaxInterfaces+1)}},
	} {
		if s.Check() == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if err := (Sample{GPUs: []GPU{{TemperatureC: new(int64(-5))}}}).Check(); err != nil {
		t.Error(err)
	}
}
