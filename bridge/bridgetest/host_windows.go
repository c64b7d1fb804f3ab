package bridgetest

import "syscall"

func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}

// killGroup ends the process; what it started ends with its pipes.
func (h *Host) killGroup() { _ = h.cmd.Process.Kill() }
