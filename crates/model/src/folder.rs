//! Where models lie: in a run folder, and in the state folder of a server or a client.
//!
//! ```text
//! RUN/models/<method>/generic.safetensors         after the last round
//!                     generic-best.safetensors    of the evaluation in which it scored best
//!                     broadcast.bin               for newcomers, where that is more than the generic model
//!                     personal/<client>.safetensors
//! STATE/generic.safetensors                       of the newest round
//!       personal.safetensors                      at a client
//! ```

use crate::{ModelError, Role, read_card};
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// The folder of a run's models.
pub const MODELS: &str = "models";
/// The generic model.
pub const GENERIC: &str = "generic.safetensors";
/// The generic model of the best evaluation.
pub const BEST: &str = "generic-best.safetensors";
/// What clients would get after the last round, if that is not the generic model.
pub const BROADCAST: &str = "broadcast.bin";
/// The folder of a method's personal models.
pub const PERSONAL: &str = "personal";
/// The personal model in a client's state folder.
pub const OWN: &str = "personal.safetensors";

/// Begins the name of a method's folder while it is being filled; no label begins with it.
pub const HALF: &str = "~";

/// Which of several models is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Which {
    /// The personal one where there is just one, else the generic one.
    #[default]
    Obvious,
    /// The generic one.
    Generic,
    /// The generic one of the best evaluation.
    Best,
    /// A client's.
    Client(usize),
}

/// The name of a client's model in its folder.
pub fn personal(client: usize) -> String {
    format!("{client}.safetensors")
}

/// A folder name for each method of a run: its label, with `-` for what is no part of a file's name, unless
/// that is not a valid folder name or differs from an earlier one by case alone.
///
/// ```
/// use formant_model::folder::method_folders;
/// assert_eq!(method_folders(["w/o SCD-GM", "W-o SCD-GM"]), ["w-o SCD-GM", "W-o SCD-GM-2"]);
/// ```
pub fn method_folders<'l>(labels: impl IntoIterator<Item = &'l str>) -> Vec<String> {
    let mut taken = HashSet::new();
    let mut names = Vec::new();
    for label in labels {
        // Some systems allow no names that end with a dot or a blank; `..` would lead elsewhere.
        let safe: String =
            label.chars().map(|c| if is_part_of_names(c) { c } else { '-' }).collect();
        let plain = safe.trim_end_matches(['.', ' ']);
        let plain = if plain.is_empty() { "method" } else { plain };
        let mut name = plain.to_owned();
        let mut count = 1;
        while !taken.insert(name.to_lowercase()) {
            count += 1;
            name = format!("{plain}-{count}");
        }
        names.push(name);
    }
    names
}

/// Whether every system allows a character in the name of a folder.
fn is_part_of_names(letter: char) -> bool {
    !letter.is_control() && !"/\\:*?\"<>|".contains(letter)
}

/// Finds one model: a file, or a folder in which it is.
pub fn locate(path: &Path, method: Option<&str>, which: Which) -> Result<PathBuf, ModelError> {
    if !path.is_dir() {
        if path.is_file() && (method.is_some() || which != Which::Obvious) {
            return Err(choice(
                format!("{} is one model: there is nothing to choose", path.display()),
                "leave out --method, --client, --generic and --best, or name a folder",
            ));
        }
        return Ok(path.into());
    }
    let folder = method_folder(path, method)?;
    let file = match which {
        Which::Client(client) => {
            own_of(&folder, client)?.unwrap_or_else(|| folder.join(PERSONAL).join(personal(client)))
        }
        Which::Best => folder.join(BEST),
        Which::Generic => folder.join(GENERIC),
        Which::Obvious => {
            let own = folder.join(OWN);
            if own.is_file() { own } else { folder.join(GENERIC) }
        }
    };
    if file.is_file() {
        return Ok(file);
    }
    let personal = clients(&folder);
    Err(match which {
        Which::Client(client) if personal.is_empty() => choice(
            format!("{} keeps no personal models, so none of client {client}", folder.display()),
            "the method may train none, or runtime.keep and runtime.keep_limit let none be kept",
        ),
        Which::Client(client) => choice(
            format!(
                "{} has no model of client {client}; it has {}",
                folder.display(),
                numbers(&personal)
            ),
            "choose one of these with --client",
        ),
        _ => choice(
            format!("{} is not there", file.display()),
            "name a model file, a folder of `formant run` that has ended with runtime.keep = \"all\", or the state folder of `formant join` or `serve`",
        ),
    })
}

/// The personal model in a client's state folder, if this is one; it must be that client's.
fn own_of(folder: &Path, client: usize) -> Result<Option<PathBuf>, ModelError> {
    let own = folder.join(OWN);
    if !own.is_file() {
        return Ok(None);
    }
    match read_card(&own)?.role {
        Role::Personal { client: found, .. } if found != client => Err(choice(
            format!("{} is the state folder of client {found}, not of {client}", folder.display()),
            "leave out --client",
        )),
        _ => Ok(Some(own)),
    }
}

/// Every model of a folder, of one method or of all: generic ones, then personal ones by client.
pub fn all(path: &Path, method: Option<&str>) -> Result<Vec<PathBuf>, ModelError> {
    if !path.is_dir() {
        return Ok(vec![path.into()]);
    }
    let folders = match (run_models(path), method) {
        (Some(models), None) => {
            subfolders(&models)?.into_iter().map(|name| models.join(name)).collect()
        }
        _ => vec![method_folder(path, method)?],
    };
    let mut files = Vec::new();
    for folder in folders {
        files.extend([GENERIC, BEST, OWN].map(|name| folder.join(name)));
        let personal_models = clients(&folder);
        files.extend(personal_models.iter().map(|c| folder.join(PERSONAL).join(personal(*c))));
    }
    files.retain(|file| file.is_file());
    if files.is_empty() {
        return Err(choice(
            format!("{} keeps no models", path.display()),
            "a run keeps them when a method has ended, unless runtime.keep = \"none\"",
        ));
    }
    Ok(files)
}

/// The clients whose models a method's folder has, ascending.
pub fn clients(folder: &Path) -> Vec<usize> {
    let entries = std::fs::read_dir(folder.join(PERSONAL)).into_iter().flatten().flatten();
    let mut clients: Vec<usize> = entries
        .filter_map(|entry| entry.file_name().to_str()?.strip_suffix(".safetensors")?.parse().ok())
        .collect();
    clients.sort_unstable();
    clients
}

/// The folder of one method in a run, or the folder itself where there is no choice.
fn method_folder(path: &Path, method: Option<&str>) -> Result<PathBuf, ModelError> {
    let Some(models) = run_models(path) else {
        return match method {
            None => Ok(path.into()),
            Some(method) => Err(choice(
                format!(
                    "{} is not a run folder, so --method {method} cannot choose in it",
                    path.display()
                ),
                "leave out --method, or name the folder that `formant run` printed",
            )),
        };
    };
    let names = subfolders(&models)?;
    let wanted = match (method, names.as_slice()) {
        (Some(method), _) => return labelled(&models, &names, method),
        (None, [only]) => only.clone(),
        (None, []) => {
            return Err(choice(
                format!("{} keeps no models yet", path.display()),
                "a run keeps them when a method has ended; go on with `formant run --resume`",
            ));
        }
        (None, _) => {
            return Err(choice(
                format!("{} has models of several methods: {}", path.display(), names.join(", ")),
                "choose one with --method",
            ));
        }
    };
    Ok(models.join(wanted))
}

/// The folder of the method with a label, which the cards in it have; in other cases of letters only
/// where that leaves no doubt.
fn labelled(models: &Path, names: &[String], method: &str) -> Result<PathBuf, ModelError> {
    let label = |name: &String| {
        let folder = models.join(name);
        let card = [GENERIC, BEST].into_iter().find_map(|file| read_card(&folder.join(file)).ok());
        card.map_or_else(|| name.clone(), |card| card.method.label)
    };
    let labels: Vec<String> = names.iter().map(label).collect();
    let exact = labels.iter().position(|label| label == method);
    let mut alike =
        (0..labels.len()).filter(|i| labels[*i].to_lowercase() == method.to_lowercase());
    let place = exact.or(match (alike.next(), alike.next()) {
        (Some(only), None) => Some(only),
        _ => None,
    });
    match place {
        Some(place) => Ok(models.join(&names[place])),
        None => Err(choice(
            format!("{} has no models of the method {method}", models.display()),
            &format!("choose one of {} with --method", labels.join(", ")),
        )),
    }
}

/// The folder of models, given a run folder or that folder itself.
fn run_models(path: &Path) -> Option<PathBuf> {
    let below = path.join(MODELS);
    if below.is_dir() {
        return Some(below);
    }
    // A run that keeps none has no such folder, but is a run.
    let is_models = path.file_name().is_some_and(|name| name == MODELS);
    (is_models || path.join("experiment.toml").is_file())
        .then(|| if is_models { path.into() } else { below })
}

fn subfolders(models: &Path) -> Result<Vec<String>, ModelError> {
    let entries = match std::fs::read_dir(models) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(ModelError::file("read", models, error)),
    };
    let mut names: Vec<String> = entries
        .flatten()
        .filter(|entry| entry.path().is_dir())
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| !name.starts_with(HALF))
        .collect();
    names.sort_unstable();
    Ok(names)
}

/// `0 to 19`, or a list where some are missing.
fn numbers(clients: &[usize]) -> String {
    match clients {
        [first, .., last] if last - first + 1 == clients.len() => format!("{first} to {last}"),
        _ => clients.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
    }
}

fn choice(found: String, remedy: &str) -> ModelError {
    ModelError::Choice { found, remedy: remedy.into() }
}
