//! A terminal of 80 columns and 24 lines: tmux, with a shell in each of its windows.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

pub(super) const COLUMNS: usize = 80;
pub(super) const LINES: usize = 24;

const POLL: Duration = Duration::from_millis(100);
/// How long the terminal itself may take.
const BOUND: Duration = Duration::from_secs(20);
/// What the shell asks with.
const PROMPT: &str = "$";
/// The terminal's own socket and session.
const NAME: &str = "first-hour";

/// tmux's status line would be one of the 24.
const CONFIGURATION: &str = "set -g status off\nset -g history-limit 2000\n";

/// Where the terminal is.
pub(super) struct Place<'a> {
    /// A command there, as the person at the terminal.
    pub(super) command: &'a dyn Fn(&[&str]) -> Command,
    /// A folder that the person may write into.
    pub(super) folder: PathBuf,
    /// The same folder as it is called there.
    pub(super) inside: String,
}

/// The terminal. Dropping it ends what runs in it.
pub(super) struct Terminal<'a> {
    place: Place<'a>,
    windows: Vec<Window>,
}

struct Window {
    name: &'static str,
    /// How many prompts were waited for.
    prompts: usize,
}

impl<'a> Terminal<'a> {
    /// Opens it, with the first window.
    pub(super) fn open(place: Place<'a>, window: &'static str) -> Result<Self> {
        // Each prompt leaves a line with the exit code of the command before it: what is on the screen is the person's.
        let shell = format!(
            "PS1='{PROMPT} '\nPROMPT_COMMAND='echo $? >> {}/prompts-$WINDOW'\n",
            place.inside
        );
        fs::write(place.folder.join("shell"), shell)?;
        fs::write(place.folder.join("tmux.conf"), CONFIGURATION)?;
        let mut terminal = Self {
            place,
            windows: Vec::new(),
        };
        let configuration = format!("{}/tmux.conf", terminal.place.inside);
        let (columns, lines) = (COLUMNS.to_string(), LINES.to_string());
        terminal.start(
            window,
            &[
                "-f",
                &configuration,
                "new-session",
                "-d",
                "-s",
                NAME,
                "-x",
                &columns,
                "-y",
                &lines,
            ],
        )?;
        Ok(terminal)
    }

    /// The window of that name, opened if it is not there.
    pub(super) fn window(&mut self, name: &'static str) -> Result<()> {
        if self.windows.iter().any(|window| window.name == name) {
            return Ok(());
        }
        self.start(name, &["new-window", "-d", "-t", NAME])
    }

    fn start(&mut self, name: &'static str, arguments: &[&str]) -> Result<()> {
        let shell = format!(
            "WINDOW={name} exec bash --noprofile --rcfile {}/shell",
            self.place.inside
        );
        self.tmux(&[arguments, &["-n", name, &shell]].concat())?;
        self.windows.push(Window { name, prompts: 0 });
        self.prompt(name, BOUND)?;
        Ok(())
    }

    /// Types the lines of a command into a window with nothing on it.
    pub(super) fn type_lines(&mut self, window: &'static str, text: &str) -> Result<()> {
        self.tmux(&["send-keys", "-t", window, "C-l"])?;
        wait("an empty screen", BOUND, || {
            Ok(self.screen(window)?.trim() == PROMPT)
        })?;
        self.tmux(&["clear-history", "-t", window])?;
        for line in text.lines() {
            self.tmux(&["send-keys", "-t", window, "-l", "--", line])?;
            self.tmux(&["send-keys", "-t", window, "Enter"])?;
        }
        Ok(())
    }

    /// Interrupts what runs in a window.
    pub(super) fn interrupt(&mut self, window: &'static str) -> Result<()> {
        self.tmux(&["send-keys", "-t", window, "C-c"])?;
        self.prompt(window, BOUND)?;
        Ok(())
    }

    /// Waits for the prompt after what was typed; the exit code.
    pub(super) fn prompt(&mut self, window: &'static str, bound: Duration) -> Result<i32> {
        let file = self.place.folder.join(format!("prompts-{window}"));
        let mut windows = self.windows.iter();
        let place = windows.position(|known| known.name == window);
        let place = place.context("there is no such window")?;
        let before = self.windows[place].prompts;
        let mut code = None;
        let came = wait("the prompt", bound, || {
            let codes = fs::read_to_string(&file).unwrap_or_default();
            code = codes.lines().nth(before).map(str::to_owned);
            let screen = self.screen(window)?;
            Ok(code.is_some() && screen.trim_end().lines().last() == Some(PROMPT))
        });
        came.with_context(|| self.screen(window).unwrap_or_default())?;
        self.windows[place].prompts += 1;
        Ok(code.context("no prompt")?.parse()?)
    }

    /// The 24 lines of a window.
    pub(super) fn screen(&self, window: &str) -> Result<String> {
        self.tmux(&["capture-pane", "-p", "-t", window])
    }

    /// The same with a terminal's codes.
    pub(super) fn styled(&self, window: &str) -> Result<String> {
        self.tmux(&["capture-pane", "-e", "-p", "-t", window])
    }

    /// All that came onto the screen, each line as long as it was printed.
    pub(super) fn text(&self, window: &str) -> Result<String> {
        self.tmux(&["capture-pane", "-J", "-p", "-S", "-", "-t", window])
    }

    fn tmux(&self, arguments: &[&str]) -> Result<String> {
        let mut command = (self.place.command)(&[&["tmux", "-u", "-L", NAME], arguments].concat());
        let output = command.stdin(Stdio::null()).output().context("tmux")?;
        ensure!(
            output.status.success(),
            "tmux {arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(String::from_utf8(output.stdout)?)
    }
}

impl Drop for Terminal<'_> {
    fn drop(&mut self) {
        // Where it did not begin there is nothing to end.
        let _ = self.tmux(&["kill-server"]);
    }
}

/// Looks until `holds` says yes.
pub(super) fn wait(
    what: &str,
    bound: Duration,
    mut holds: impl FnMut() -> Result<bool>,
) -> Result<()> {
    let until = Instant::now() + bound;
    while !holds()? {
        ensure!(Instant::now() < until, "{what}: not within {bound:?}");
        thread::sleep(POLL);
    }
    Ok(())
}
