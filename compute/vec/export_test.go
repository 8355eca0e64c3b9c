//go:build amd64 && !purego

package vec

// HasFast is whether this process uses the assembly.
var HasFast = fast

// SetFast switches the assembly on or off until the function that it returns
// is called.
func SetFast(on bool) (restore func()) {
	was := fast
	fast = on
	return func() { fast = was }
}
