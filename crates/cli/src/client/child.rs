//! A command that runs in the foreground as if it had been started by itself: its terminal, its signals, its exit code.

use std::process::{Child, Command, ExitStatus};

use crate::failure::Failure;

/// Runs a command to its end and gives the exit code a shell would give: 128 and the signal if one ended it.
///
/// Ctrl-C and Ctrl-\ reach the command from the terminal, so this process only has to survive them. What is sent to this
/// process alone is passed on.
pub(super) async fn run(command: &mut Command) -> Result<u8, std::io::Error> {
    #[cfg(unix)]
    let mut signals = Signals::catch()?;
    let child = command.spawn()?;
    #[cfg(unix)]
    {
        let id = child.id();
        let mut ended = tokio::task::spawn_blocking(move || wait(child));
        loop {
            tokio::select! {
                status = &mut ended => return status?.map(code),
                signal = signals.next() => pass_on(id, signal),
            }
        }
    }
    #[cfg(not(unix))]
    {
        let ctrl_c = tokio::spawn(async { while tokio::signal::ctrl_c().await.is_ok() {} });
        let status = tokio::task::spawn_blocking(move || wait(child)).await?;
        ctrl_c.abort();
        status.map(code)
    }
}

fn wait(mut child: Child) -> Result<ExitStatus, std::io::Error> {
    child.wait()
}

/// The exit code of a shell for a command that ended like this.
fn code(status: ExitStatus) -> u8 {
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        return u8::try_from(128 + signal).unwrap_or(u8::MAX);
    }
    status.code().map_or(u8::MAX, |code| (code & 0xff) as u8)
}

/// Sends the command a signal that only this process got. One from the terminal has reached it already.
#[cfg(unix)]
fn pass_on(id: u32, signal: Option<rustix::process::Signal>) {
    let id = i32::try_from(id).ok().and_then(rustix::process::Pid::from_raw);
    if let (Some(id), Some(signal)) = (id, signal) {
        // A command that has just ended needs no signal.
        let _ = rustix::process::kill_process(id, signal);
    }
}

/// The signals that this process does not end by. Handlers are not inherited by the command, which has the usual ones.
#[cfg(unix)]
struct Signals {
    interrupt: tokio::signal::unix::Signal,
    quit: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
    hang_up: tokio::signal::unix::Signal,
    user_1: tokio::signal::unix::Signal,
    user_2: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    fn catch() -> Result<Signals, std::io::Error> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Signals {
            interrupt: signal(SignalKind::interrupt())?,
            quit: signal(SignalKind::quit())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
            user_1: signal(SignalKind::user_defined1())?,
            user_2: signal(SignalKind::user_defined2())?,
        })
    }

    /// The next signal to pass on; none for those that the terminal has sent to the command too.
    async fn next(&mut self) -> Option<rustix::process::Signal> {
        use rustix::process::Signal;
        let unless_from_terminal = |signal| (!is_in_foreground()).then_some(signal);
        tokio::select! {
            _ = self.interrupt.recv() => unless_from_terminal(Signal::INT),
            _ = self.quit.recv() => unless_from_terminal(Signal::QUIT),
            _ = self.terminate.recv() => Some(Signal::TERM),
            _ = self.hang_up.recv() => Some(Signal::HUP),
            _ = self.user_1.recv() => Some(Signal::USR1),
            _ = self.user_2.recv() => Some(Signal::USR2),
        }
    }
}

/// Whether this process and the command are what the terminal sends its signals to.
#[cfg(unix)]
fn is_in_foreground() -> bool {
    let terminal = std::fs::File::open("/dev/tty");
    terminal.is_ok_and(|terminal| {
        rustix::termios::tcgetpgrp(&terminal).is_ok_and(|group| group == rustix::process::getpgrp())
    })
}

/// A command that could not be started, in the words of its name.
pub(super) fn cannot_start(name: &str, error: &std::io::Error) -> Failure {
    Failure::io(name, error).into_usage()
}
