package spec

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// ParseSize reads a number of bytes such as 512m or 2GiB; k, m, g and t are
// powers of 1024.
func ParseSize(s string) (int64, error) {
	bad := fmt.Errorf("%q is not a size such as 512m or 2g", s)
	low := strings.ToLower(strings.TrimSpace(s))
	digits := strings.TrimRight(low, "bikmgt")
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n < -1 {
		return 0, bad
	}
	unit := strings.TrimSuffix(strings.TrimSuffix(low[len(digits):], "b"), "i")
	shift := map[string]uint{"": 0, "k": 10, "m": 20, "g": 30, "t": 40}
	by, known := shift[unit]
	if !known || n > math.MaxInt64>>by || n<<by > MaxInteger {
		return 0, bad
	}
	return n << by, nil
}
