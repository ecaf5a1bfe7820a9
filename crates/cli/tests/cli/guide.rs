//! The guide, command by command, on a folder that is made here. What it shows of a server's file is used.

use crate::documents::{Block, blocks, read};
use crate::terminal::{Answer, Terminal};
use image::{Rgb, RgbImage};
use std::path::Path;
use std::process::{Child, Stdio};

/// Pictures of three classes that a network can tell apart, of two sizes.
fn photographs(folder: &Path, each: u32, from: u32) {
    for (class, base) in [("cat", [200, 60, 60]), ("dog", [60, 200, 60]), ("horse", [60, 60, 200])]
    {
        std::fs::create_dir_all(folder.join(class)).unwrap();
        for i in from..from + each {
            let side = if i % 5 == 0 { 24 } else { 16 };
            let picture = RgbImage::from_fn(side, side, |x, y| {
                let grain = (x * 7 + y * 13 + i * 29) % 50;
                Rgb(base.map(|level: u32| (level + grain) as u8))
            });
            picture.save(folder.join(class).join(format!("{i:04}.png"))).unwrap();
        }
    }
}

/// Starts a command that goes on beside others.
fn started(terminal: &Terminal, line: &str) -> Child {
    let mut words = line.split_whitespace();
    assert_eq!(words.next(), Some("formant"));
    let mut command = terminal.command(&words.collect::<Vec<_>>());
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn finished(line: &str, child: Child) {
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{line}\n{said}");
}

fn done(terminal: &Terminal, line: &str) -> Answer {
    let words: Vec<&str> = line.split_whitespace().skip(1).collect();
    terminal.succeed(&words)
}

/// The hash of an experiment that a client shows before anybody has approved it.
fn proposed(terminal: &Terminal, line: &str) -> String {
    let words: Vec<&str> = line.split_whitespace().skip(1).collect();
    let answer = terminal.formant(&words);
    assert_eq!(answer.code, Some(3), "{line}\n{}", answer.stderr);
    let hash = answer.stdout.lines().find_map(|line| line.strip_prefix("hash "));
    let hash = hash.unwrap().trim().to_owned();
    let exactly = format!("formant {} --accept {hash}", line.trim_start_matches("formant "));
    let words = |text: &str| -> std::collections::BTreeSet<String> {
        text.split_whitespace().map(str::to_owned).collect()
    };
    let told = answer.stderr.lines().last().unwrap();
    assert_eq!(words(told), words(&exactly), "the exact command: {}", answer.stderr);
    hash
}

/// A port that nobody listens on.
fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[test]
fn every_command_of_the_guide_works_in_its_order() {
    let terminal = Terminal::new();
    photographs(&terminal.path("photos"), 40, 0);
    photographs(&terminal.path("photos-anna"), 12, 100);
    photographs(&terminal.path("photos-ben"), 16, 200);
    let (port, ops) = (free_port(), free_port());
    // Three hosts on this one.
    let here = |text: &str| {
        text.replace("0.0.0.0:7700", &format!("127.0.0.1:{port}"))
            .replace("127.0.0.1:7701", &format!("127.0.0.1:{ops}"))
            .replace("fl.example.org:7700", &format!("localhost:{port}"))
            .replace("--host fl.example.org", "--host localhost")
    };
    let (mut server, mut shown) = (None, None);
    let mut clients = Vec::new();
    for Block { language, text } in blocks(&read("docs/GUIDE.md")) {
        match language.as_str() {
            "toml" => terminal.write("server.toml", &here(&text)),
            "sh" => {
                for line in text.lines() {
                    let line = here(line);
                    if let Some((command, file)) = line.split_once(" > ") {
                        terminal.write(file, &done(&terminal, command).stdout);
                    } else if line == "cat description.toml >> server.toml" {
                        let both = ["server.toml", "description.toml"]
                            .map(|file| std::fs::read_to_string(terminal.path(file)).unwrap());
                        terminal.write("server.toml", &both.join("\n"));
                    } else if line.starts_with("formant serve") {
                        server = Some(started(&terminal, &line));
                    } else if let Some(line) = line.strip_suffix("sha256:…") {
                        let line = format!("{line}{}", shown.as_deref().unwrap());
                        clients.push((started(&terminal, &line), line));
                    } else if line.starts_with("formant join") {
                        shown = Some(proposed(&terminal, &line));
                    } else {
                        for (client, line) in clients.drain(..) {
                            finished(&line, client);
                        }
                        done(&terminal, &line);
                    }
                }
            }
            "text" => {}
            other => panic!("a block of {other:?} that nobody checks"),
        }
    }
    finished("formant serve", server.unwrap());
    for file in [
        "sheet.png",
        "map.svg",
        "runs/photos/report.html",
        "client-0.onnx",
        "anna/personal.safetensors",
    ] {
        assert!(terminal.path(file).is_file(), "{file}");
    }
}
