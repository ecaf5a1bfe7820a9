//! A second executor: each client in a child process of its own, which holds its state and computes
//! with it, over pipes. It gives the bits of threads.
//!
//! Without the usual harness: a child is this same program, and its standard output is the pipe.

#![expect(clippy::unwrap_used, reason = "what a test cannot do without, it may insist on")]

mod child;
mod executor;
mod pipe;
#[path = "../contract/standard.rs"]
#[expect(dead_code, reason = "there are more helpers than this suite needs")]
mod standard;
mod suite;

use std::process::ExitCode;

/// The variable that makes this program a child.
const CHILD: &str = "FORMANT_TEST_CHILD";

fn main() -> ExitCode {
    if std::env::var_os(CHILD).is_some() {
        return child::main();
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let asked = |flag: &str| arguments.iter().any(|argument| argument == flag);
    let filter = arguments.iter().find(|argument| !argument.starts_with('-'));
    for (name, test) in suite::TESTS {
        // None of them is ignored.
        if asked("--ignored") || filter.is_some_and(|filter| !name.contains(filter.as_str())) {
            continue;
        }
        if asked("--list") {
            println!("{name}: test");
        } else {
            test();
            println!("test {name} ... ok");
        }
    }
    ExitCode::SUCCESS
}
