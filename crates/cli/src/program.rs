//! What this program is called. It is not always `formant`: whoever has methods of their own builds it under
//! another name, and what it tells people to type has to be that.

use crate::args::Cli;
use clap::{Command, CommandFactory};
use std::borrow::Cow;
use std::path::Path;
use std::sync::OnceLock;

/// The name under which texts in this workspace know the program.
const FORMANT: &str = "formant";

static NAME: OnceLock<String> = OnceLock::new();

/// Says what the program is called, where that is not the name of the binary; the first call counts.
pub(crate) fn call_it(name: &str) {
    NAME.get_or_init(|| name.into());
}

/// The name of the binary that runs.
pub(crate) fn name() -> &'static str {
    NAME.get_or_init(|| {
        let path = std::env::args_os().next().unwrap_or_default();
        let stem = Path::new(&path).file_stem().map(|stem| stem.to_string_lossy().into_owned());
        stem.unwrap_or_else(|| FORMANT.into())
    })
}

/// The command line of this program.
pub(crate) fn command() -> Command {
    let command = Cli::command();
    if name() == FORMANT { command } else { in_the_name_of(name(), command.name(name())) }
}

/// Renames the program in the help of a command and of all below it.
fn in_the_name_of(program: &'static str, command: Command) -> Command {
    let mut command = command.mut_args(|arg| match arg.get_help().map(ToString::to_string) {
        Some(help) => arg.help(renamed_to(program, &help).into_owned()),
        None => arg,
    });
    if let Some(examples) = command.get_after_help().map(ToString::to_string) {
        command = command.after_help(renamed_to(program, &examples).into_owned());
    }
    let below: Vec<String> = command.get_subcommands().map(|c| c.get_name().to_owned()).collect();
    for name in below {
        command = command.mut_subcommand(name, |below| in_the_name_of(program, below));
    }
    command
}

/// A text in which every command to type has this program's name.
pub(crate) fn renamed(text: &str) -> Cow<'_, str> {
    renamed_to(name(), text)
}

/// The word `formant` is the program where a command follows it. ("Another formant process" is none.)
fn renamed_to<'t>(program: &str, text: &'t str) -> Cow<'t, str> {
    if program == FORMANT || !text.contains(FORMANT) {
        return text.into();
    }
    let commands = Cli::command();
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    while let Some((before, after)) = rest.split_once("formant ") {
        let next = after.split(|c: char| !(c.is_alphanumeric() || c == '-')).next();
        let begins = !before.ends_with(|c: char| c.is_alphanumeric() || "-_./".contains(c));
        let is_typed = begins && next.is_some_and(|next| commands.find_subcommand(next).is_some());
        out.push_str(before);
        out.push_str(if is_typed { program } else { FORMANT });
        out.push(' ');
        rest = after;
    }
    out.push_str(rest);
    out.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_typed_is_renamed_and_nothing_else() {
        let renamed = |text| renamed_to("mine", text).into_owned();
        assert_eq!(
            renamed("  formant run\nhint: `formant init` writes, then `formant data show`"),
            "  mine run\nhint: `mine init` writes, then `mine data show`"
        );
        let others = "another formant process, my-formant run, formant, a formant server";
        assert_eq!(renamed(others), others);
        assert_eq!(renamed_to(FORMANT, "formant run"), "formant run");
    }

    #[test]
    fn every_example_has_the_programs_name() {
        let mut command = in_the_name_of("mine", Cli::command().name("mine"));
        let mut pages = vec![command.render_long_help().to_string()];
        for below in command.get_subcommands_mut() {
            pages.push(below.render_long_help().to_string());
            pages.extend(below.get_subcommands_mut().map(|c| c.render_long_help().to_string()));
        }
        assert!(pages.len() > 20 && pages.iter().any(|page| page.contains("mine sweep --method")));
        for page in pages {
            // What ends in it is a file.
            assert!(!page.replace(".formant ", "").contains("formant "), "{page}");
        }
    }
}
