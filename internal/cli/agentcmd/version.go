package agentcmd

import "runtime/debug"

// number is the version that this tree is, or is on the way to.
const number = "0.1.0"

// Version names this build: the number and, where it is known, the commit.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return number
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			return number + "+" + s.Value[:12]
		}
	}
	return number
}
