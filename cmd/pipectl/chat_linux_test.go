package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A keyboard is the other side of a terminal that a program runs on.
type keyboard struct {
	t    *testing.T
	file *os.File
	seen string
}

// onTerminal starts a program on a terminal of its own.
func onTerminal(t *testing.T, args ...string) (*keyboard, *exec.Cmd) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("no pseudo-terminals: ", err)
	}
	t.Cleanup(func() { _ = master.Close() })
	require.NoError(t, unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	defer slave.Close()
	cmd := program(t, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	require.NoError(t, cmd.Start())
	return &keyboard{t: t, file: master}, cmd
}

func (k *keyboard) press(keys string) {
	k.t.Helper()
	_, err := k.file.WriteString(keys)
	require.NoError(k.t, err)
}

// see waits until the screen has shown text since the last call.
func (k *keyboard) see(text string) {
	k.t.Helper()
	buf := make([]byte, 4096)
	for {
		if _, after, ok := strings.Cut(k.seen, text); ok {
			k.seen = after
			return
		}
		n, err := k.file.Read(buf)
		require.NoError(k.t, err, "%q does not come: %q", text, k.seen)
		k.seen += string(buf[:n])
	}
}

func TestChatOnTerminal(t *testing.T) {
	args := []string{"chat", "-m", endlessDemo(t), "--chat-template", "chatml", "--temp", "0", "--ctx", endlessContext}
	const ctrlC, ctrlD, up = "\x03", "\x04", "\x1b[A"

	k, cmd := onTerminal(t, args...)
	k.see("/help lists commands")
	k.see("> ")
	k.press("Once\r")
	k.see("was") // the answer, which would not end
	k.press(ctrlC)
	k.see("stopped")
	k.see("> ")
	k.press(ctrlC)
	k.see("Ctrl-C again")
	k.see("> ")
	k.press("half" + ctrlC) // it is dropped, and this is not the second in a row
	k.see("> ")
	k.press(`half\` + "\r")
	k.see(". ")
	k.press(ctrlC) // it drops the line before too
	k.see("> ")
	k.press(ctrlC)
	k.see("Ctrl-C again")
	k.see("> ")
	k.press("/nonsense\r")
	k.see("/nonsense is no command")
	k.see("> ")
	k.press(up + up + up + "\r") // from the history
	k.see("Once")
	k.see("was")
	k.press(ctrlC)
	k.see("stopped")
	k.see("> ")
	k.press("\x1b[200~pasted\rlines\x1b[201~\r")
	k.see("was")
	k.press(ctrlC)
	k.see("stopped")
	k.see("> ")
	k.press(ctrlC)
	k.see("Ctrl-C again")
	k.see("> ")
	k.press(ctrlC)
	require.NoError(t, cmd.Wait(), k.seen)

	k, cmd = onTerminal(t, args...)
	k.see("> ")
	k.press("/nonsense\rhalf" + ctrlC + ctrlC + ctrlC) // all at once
	k.see("/nonsense is no command")
	k.see("Ctrl-C again")
	require.NoError(t, cmd.Wait(), k.seen)

	k, cmd = onTerminal(t, args...)
	k.see("> ")
	k.press(ctrlD)
	require.NoError(t, cmd.Wait(), k.seen)

	k, cmd = onTerminal(t, args...)
	k.see("> ")
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	_ = cmd.Wait() // the exit code says it
	require.Equal(t, exitInterrupted, cmd.ProcessState.ExitCode())
}
