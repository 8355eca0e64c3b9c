//go:build !linux

package ring

import "context"

// Populate does nothing on this system: pages become present when they are
// touched.
func (m *Memory) Populate(context.Context) {}
