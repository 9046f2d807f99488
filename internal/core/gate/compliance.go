package gate

import (
	"strconv"
	"strings"
)

// CheckControls blocks a rollout whose plan fails required static controls: what
// is signed as required is never waved through. failures are in words.
func CheckControls(rollout string, failures []string) *Block {
	if len(failures) == 0 {
		return nil
	}
	return block(Compliance, "controls").because("rollout %s is blocked: %s", rollout, some(failures)).
		until("a release that passes", never).
		by("a releaser: mend what fails, or sign the control as observed, then build, sign and push", release())
}

// Outstanding is a host whose required evidence does not pass now.
type Outstanding struct {
	Host     string
	Controls []string
}

// CheckEvidence holds what comes after hosts whose required evidence does not pass.
func CheckEvidence(rollout string, failing []Outstanding) *Block {
	if len(failing) == 0 {
		return nil
	}
	var words []string
	for _, f := range failing {
		words = append(words, "host "+f.Host+" fails "+some(f.Controls))
	}
	return block(Compliance, "evidence").because("required evidence of rollout %s does not pass: %s", rollout, some(words)).
		until("its probes to pass again", never).
		by("whoever runs those hosts, or a release that observes the probe: steady release push", release())
}

// some joins the first of a list.
func some(list []string) string {
	const most = 3
	if n := len(list) - most; n > 0 {
		return strings.Join(list[:most], ", ") + " and " + strconv.Itoa(n) + " more"
	}
	return strings.Join(list, ", ")
}
