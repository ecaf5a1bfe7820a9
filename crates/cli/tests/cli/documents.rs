//! Examples in the documents: every command is one that the program understands, every experiment one that it
//! would run.

use crate::terminal::Terminal;
use formant_experiment::{Experiment, Override, QUICKSTART};
use formant_methods::Zoo;
use formant_network::client::{POLICY, Policy};
use std::path::Path;
use toml::{Table, Value};

/// Pages with examples.
const PAGES: [&str; 12] = [
    "README.md",
    "CONTRIBUTING.md",
    "docs/COMPARING.md",
    "docs/DATA.md",
    "docs/FEDERATION.md",
    "docs/GUIDE.md",
    "docs/MODELS.md",
    "docs/PERFORMANCE.md",
    "docs/SECURITY.md",
    "docs/TRAINING.md",
    "examples/deploy/README.md",
    "examples/custom-method/README.md",
];

pub(crate) fn read(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    std::fs::read_to_string(root.join(path)).unwrap()
}

/// A fenced block.
pub(crate) struct Block {
    pub(crate) language: String,
    pub(crate) text: String,
}

/// The fenced blocks of a page.
pub(crate) fn blocks(page: &str) -> Vec<Block> {
    let (mut blocks, mut open) = (Vec::new(), None::<Block>);
    for line in page.lines() {
        match (&mut open, line.trim_start().strip_prefix("```")) {
            (None, Some(language)) => {
                open = Some(Block { language: language.trim().into(), text: String::new() });
            }
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (Some(block), None) => {
                block.text.push_str(line);
                block.text.push('\n');
            }
            (None, None) => {}
        }
    }
    blocks
}

/// The commands of a page, without what is said about them.
fn commands(page: &str) -> Vec<String> {
    let mut commands = Vec::new();
    for block in blocks(page).iter().filter(|block| ["sh", "text"].contains(&&*block.language)) {
        let joined = block.text.replace("\\\n", " ");
        let lines = joined.lines().map(|line| line.trim().trim_start_matches("$ "));
        for line in lines.flat_map(|line| line.split(" && ")) {
            let line = line.split(" #").next().unwrap().split(" > ").next().unwrap();
            let line = line.trim().trim_end_matches('&').trim();
            if line.starts_with("formant ") {
                commands.push(line.to_owned());
            }
        }
    }
    commands
}

#[test]
fn the_program_understands_every_command() {
    let terminal = Terminal::new();
    let (zoo, quickstart) = (Zoo::standard(), QUICKSTART.parse::<Table>().unwrap());
    let mut seen = 0;
    for page in PAGES {
        for line in commands(&read(page)) {
            // Help is printed when everything before it is understood.
            let words: Vec<&str> = line.split_whitespace().skip(1).chain(["--help"]).collect();
            let answer = terminal.formant(&words);
            assert_eq!(answer.code, Some(0), "{page}: {line}\n{}", answer.stderr);
            let changes = words.windows(2).filter(|pair| pair[0] == "--set" && words[0] == "run");
            let changes = changes.map(|pair| Override::parse(pair[1]).unwrap());
            let changes: Vec<Override> = changes.collect();
            if let Err(error) = Experiment::parse(&quickstart, &changes, &zoo) {
                panic!("{page}: {line}\n{error}");
            }
            seen += 1;
        }
    }
    assert!(seen > 60, "only {seen} commands were found");
}

#[test]
fn every_experiment_in_the_documents_can_be_run() {
    let zoo = Zoo::standard();
    let mut seen = 0;
    for page in PAGES {
        for Block { text, .. } in
            blocks(&read(page)).iter().filter(|block| block.language == "toml")
        {
            let mut table: Table =
                text.parse().unwrap_or_else(|error| panic!("{page}: {error}\n{text}"));
            // Parts of a file have no method.
            let method = Value::Table(Table::from_iter([("name".to_owned(), "fedavg".into())]));
            table.entry("method").or_insert(Value::Array(vec![method]));
            if page == "CONTRIBUTING.md" || table.contains_key("dependencies") {
                continue;
            }
            if table.get("evaluation").is_some_and(|e| e.get("split").is_some()) {
                let mut data = Table::new();
                data.insert("validation_fraction".into(), 0.2.into());
                table.entry("data").or_insert(Value::Table(data));
            }
            if let Err(error) = Experiment::parse_for_network(&table, &[], &zoo) {
                panic!("{page}: {error}\n{text}");
            }
            seen += 1;
        }
    }
    assert!(seen >= 4, "only {seen} experiments were found");
}

/// What a client refuses is written in three places, of which one is the table of its keys.
#[test]
fn a_clients_rules_are_what_the_documents_say() {
    let shipped = read("examples/deploy/policy.toml");
    assert_eq!(shipped, Policy::template(), "examples/deploy/policy.toml");
    let written = Policy::parse(&shipped.parse().unwrap(), &Zoo::standard()).unwrap();
    assert_eq!(written, Policy::default());
    let page = read("docs/SECURITY.md");
    let inside = page.split("<!-- policy -->\n").nth(1).unwrap().split("<!-- /policy -->").next();
    assert_eq!(inside.unwrap(), Policy::table(), "docs/SECURITY.md");
    let help = Terminal::new().formant(&["join", "--help"]).stdout;
    for key in POLICY {
        assert!(help.contains(&format!("{} = ", key.name)), "{} in {help}", key.name);
    }
}

#[test]
fn what_the_readme_says_one_can_do_works() {
    let terminal = Terminal::with_digits();
    terminal.save(0, "digit.png");
    // Less of everything: what the commands mean is another test's business.
    let short = ["--set", "rounds=1", "--set", "data.samples=1200", "--set", "network.name=mlp"];
    let mut folder: Option<String> = None;
    let readme = read("README.md");
    let use_it = readme.split("## Use it").nth(1).unwrap().split("\n## ").next().unwrap();
    for line in commands(use_it) {
        let shown = folder.clone().unwrap_or_default();
        let line = line.replace("runs/quickstart-…", &shown);
        let mut words: Vec<&str> = line.split_whitespace().skip(1).collect();
        match words[0] {
            // Minutes, whatever is left out of it; both have tests of their own.
            "devices" | "speedup" => continue,
            "compare" => words = vec!["compare", &shown],
            "spectra" => words = vec!["spectra", &shown, "--method", "SCD", "--kind", "flat"],
            // The run is complete: tests of interruption have others.
            "run" if words.contains(&"--resume") => continue,
            "run" if words.contains(&"--data-dir") || words.contains(&"photos.toml") => continue,
            "init" if words.contains(&"--data") => continue,
            "run" | "sweep" => words.extend(short),
            "tune" => words.extend(short.iter().chain(&["--budget", "1"])),
            _ => {}
        }
        terminal.succeed(&words);
        if folder.is_none() && words[0] == "run" {
            let runs = std::fs::read_dir(terminal.path("runs")).unwrap();
            let name = runs.map(|run| run.unwrap().file_name()).next().unwrap();
            folder = Some(format!("runs/{}", name.to_string_lossy()));
        }
    }
    assert!(folder.is_some());
}
