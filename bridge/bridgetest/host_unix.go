//go:build unix

package bridgetest

import "syscall"

func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// SignalGroup sends a signal to the process and all that it started and that
// stayed in its group.
func (h *Host) SignalGroup(s syscall.Signal) error {
	if s == syscall.SIGKILL {
		h.note(func() { h.killed = true })
	}
	return syscall.Kill(-h.cmd.Process.Pid, s)
}

func (h *Host) killGroup() {
	_ = h.SignalGroup(syscall.SIGKILL) // no such group: it has ended
	_ = h.cmd.Process.Kill()
}
