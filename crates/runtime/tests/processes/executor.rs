//! The driver's end of the pipes.

use crate::CHILD;
use crate::pipe::{self, Reply, Request};
use formant_methods::MethodError;
use formant_numerics::{Confusion, Model, Pulse, Tally};
use formant_runtime::executor::{
    Adaptation, Adapting, Answer, Executor, GlobalSet, Held, Look, MeanModel, OwnScores,
    PersonalScores, Start, Take, Wave,
};
use formant_runtime::{RunPlan, RuntimeError, Stored};
use std::io::{self, BufReader, BufWriter};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// Each client in a process of its own.
pub(crate) struct Processes<'p> {
    plan: &'p RunPlan,
    clients: Vec<Process>,
    method: usize,
    folder: PathBuf,
}

struct Process {
    client: usize,
    child: Child,
    /// None once it was closed.
    input: Option<BufWriter<ChildStdin>>,
    output: BufReader<ChildStdout>,
}

impl Process {
    fn start(client: usize, experiment: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .env(CHILD, client.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = child.stdin.take().map(BufWriter::new);
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut process = Self { client, child, input, output };
        process.ask(&Request::Hello { client, experiment: experiment.into() }).unwrap();
        process
    }

    fn lost(&self, error: &io::Error) -> RuntimeError {
        self.failed(format!("its pipe is broken: {error}"))
    }

    fn failed(&self, why: String) -> RuntimeError {
        RuntimeError::Executor { place: format!("the process of client {}", self.client), why }
    }

    fn ask(&mut self, request: &Request) -> Result<(), RuntimeError> {
        let asked = self.input.as_mut().map(|input| pipe::write(input, request));
        asked.transpose().map(drop).map_err(|error| self.lost(&error))
    }

    fn hear(&mut self) -> Result<Reply, RuntimeError> {
        match pipe::read(&mut self.output) {
            Ok(Some(Reply::Failed(why))) => Err(self.failed(why)),
            Ok(Some(reply)) => Ok(reply),
            Ok(None) => Err(self.failed("it has ended".into())),
            Err(error) => Err(self.lost(&error)),
        }
    }

    fn out_of_turn(&self) -> RuntimeError {
        self.failed("it has answered something else".into())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The end of its input ends it.
        self.input = None;
        self.child.wait().unwrap();
    }
}

impl<'p> Processes<'p> {
    /// Starts a process for each client of a plan that the text of an experiment gives.
    pub(crate) fn new(plan: &'p RunPlan, experiment: &str) -> Self {
        let ids = 0..plan.federation.clients.len();
        let mut clients: Vec<_> = ids.map(|id| Process::start(id, experiment)).collect();
        for process in &mut clients {
            assert!(matches!(process.hear(), Ok(Reply::Ready)));
        }
        Self { plan, clients, method: 0, folder: PathBuf::new() }
    }

    /// Ends one client's process, as an accident would.
    pub(crate) fn kill(&mut self, client: usize) {
        self.clients[client].child.kill().unwrap();
    }

    /// Closes all pipes; gives how each process has ended.
    pub(crate) fn hang_up(mut self) -> Vec<bool> {
        let ended = self.clients.iter_mut().map(|process| {
            process.input = None;
            process.child.wait().unwrap().success()
        });
        ended.collect()
    }

    /// Asks all clients at once; reads their replies in client order.
    fn ask_all<T>(
        &mut self,
        request: impl Fn(usize) -> Request,
        read: impl Fn(Reply) -> Option<T>,
    ) -> Result<Vec<T>, RuntimeError> {
        for process in &mut self.clients {
            process.ask(&request(process.client))?;
        }
        let replies = self.clients.iter_mut().map(|process| {
            let reply = process.hear()?;
            read(reply).ok_or_else(|| process.out_of_turn())
        });
        // All are read before the first failure counts, so that the next question gets its own reply.
        let replies: Vec<_> = replies.collect();
        replies.into_iter().collect()
    }
}

/// Processes are not stopped in the middle of what they do, but nothing of it is used.
fn stopped(pulse: Pulse<'_>) -> Result<(), RuntimeError> {
    if pulse.is_stopped() { Err(MethodError::Stopped.into()) } else { Ok(()) }
}

/// Adds a client's answers to those of the clients before it.
fn add(sum: &mut Option<Confusion>, own: Option<Confusion>) {
    if let Some(own) = own {
        sum.get_or_insert_default().add(&own);
    }
}

impl Executor for Processes<'_> {
    fn begin(&mut self, start: &Start<'_>) -> Result<(), RuntimeError> {
        (self.method, self.folder) = (start.method, start.folder.to_owned());
        self.sweep(start.named);
        let begin = |client| Request::Begin {
            method: start.method,
            folder: start.folder.to_owned(),
            state: start.held.clients.get(client).cloned().flatten(),
            sent: start.held.sent.get(&client).cloned(),
        };
        self.ask_all(begin, |reply| matches!(reply, Reply::Ready).then_some(())).map(drop)
    }

    fn end(&mut self) {}

    fn run(&mut self, wave: &Wave<'_>, take: &mut Take<'_>) -> Result<(), RuntimeError> {
        for (&client, steps) in wave.jobs {
            let mut broadcasts = std::collections::BTreeMap::new();
            for step in steps {
                broadcasts.insert(step.round, wave.broadcasts[&step.round].encode()?);
            }
            self.clients[client].ask(&Request::Work { steps: steps.clone(), broadcasts })?;
        }
        let method = &*self.plan.methods[self.method].method;
        // An upload stays in its client's process until its turn.
        let mut jobs = wave.jobs.keys();
        let mut next = || -> Option<Result<Answer, RuntimeError>> {
            let process = &mut self.clients[*jobs.next()?];
            Some(process.hear().and_then(|reply| match reply {
                Reply::Worked { record, upload } => {
                    let phases = record.phases.iter();
                    wave.pulse.count(phases.map(|phase| phase.record.meter.samples).sum());
                    stopped(wave.pulse)?;
                    let upload = upload.map(|upload| method.decode_upload(&upload)).transpose()?;
                    Ok(Answer { record, upload })
                }
                _ => Err(process.out_of_turn()),
            }))
        };
        let outcome = take(&mut std::iter::from_fn(&mut next));
        while next().is_some() {}
        outcome
    }

    fn score_personal(&mut self, looked: &Look<'_>) -> Result<PersonalScores, RuntimeError> {
        stopped(looked.pulse)?;
        let broadcast = looked.broadcast.encode()?;
        let look = |client| Request::Look {
            round: looked.round,
            broadcast: broadcast.clone(),
            send: looked.mean || client < looked.models,
            folder: looked.folder.map(ToOwned::to_owned),
            answers: looked.answers,
        };
        let replies = self.ask_all(look, |reply| match reply {
            Reply::Looked { own, model, written, choice } => Some((own, model, written, choice)),
            _ => None,
        })?;
        let mut scores = PersonalScores::default();
        let mut mean = looked.mean.then(|| MeanModel::of(&self.plan.init()));
        for (client, (own, model, written, choice)) in replies.into_iter().enumerate() {
            scores.clients.push(own.figures);
            scores.choices.push(choice);
            add(&mut scores.answers, own.answers);
            if let (Some(mean), Some(model)) = (&mut mean, &model) {
                mean.add(self.plan.federation.clients[client].train.len() as f64, model);
            }
            if let Some(bytes) = written {
                scores.written.add(bytes);
            }
            if let Some(model) = model.filter(|_| client < looked.models) {
                scores.models.insert(client, model);
            }
        }
        scores.mean = mean.map(MeanModel::finish);
        Ok(scores)
    }

    fn score_own(
        &mut self,
        model: &Model,
        answers: bool,
        pulse: Pulse<'_>,
    ) -> Result<OwnScores, RuntimeError> {
        stopped(pulse)?;
        let replies = self.ask_all(
            |_| Request::ScoreOwn(model.clone(), answers),
            |reply| match reply {
                Reply::Own(own) => Some(own),
                _ => None,
            },
        )?;
        let mut scores = OwnScores::default();
        for own in replies {
            scores.clients.push(own.figures);
            add(&mut scores.answers, own.answers);
        }
        Ok(scores)
    }

    fn score_global(
        &mut self,
        model: &Model,
        answers: bool,
        pulse: Pulse<'_>,
    ) -> Result<Tally, RuntimeError> {
        let mut parts = Vec::new();
        for part in 0..GlobalSet::of(self.plan).parts() {
            stopped(pulse)?;
            let clients = self.clients.len();
            let process = &mut self.clients[part % clients];
            process.ask(&Request::ScorePart(part, model.clone(), answers))?;
            match process.hear()? {
                Reply::Part(score) => parts.push(score),
                _ => return Err(process.out_of_turn()),
            }
        }
        Ok(GlobalSet::total(parts))
    }

    fn adapt(&mut self, asked: &Adapting<'_>) -> Result<Vec<Adaptation>, RuntimeError> {
        let broadcast = asked.broadcast.map(formant_methods::Value::encode).transpose()?;
        let places: Vec<usize> = (0..self.plan.federation.newcomers.clients.len()).collect();
        let mut found = Vec::new();
        // Newcomers have no processes of their own: those of the clients lend theirs.
        for places in places.chunks(self.clients.len()) {
            stopped(asked.pulse)?;
            for (process, &place) in self.clients.iter_mut().zip(places) {
                process.ask(&Request::Adapt {
                    method: asked.method,
                    place,
                    model: asked.model.clone(),
                    broadcast: broadcast.clone(),
                    epochs: asked.epochs,
                })?;
            }
            for (process, _) in self.clients.iter_mut().zip(places) {
                match process.hear()? {
                    Reply::Adapted(adaptation) => found.push(adaptation),
                    _ => return Err(process.out_of_turn()),
                }
                (asked.done)();
            }
        }
        Ok(found)
    }

    fn each_state(&mut self, see: &mut dyn FnMut(&[u8])) -> Result<(), RuntimeError> {
        let states = self.ask_all(
            |_| Request::State,
            |reply| match reply {
                Reply::State(state) => Some(state),
                _ => None,
            },
        )?;
        for state in &states {
            see(state);
        }
        Ok(())
    }

    fn persist(&mut self) -> Result<Held, RuntimeError> {
        let all = self.ask_all(
            |_| Request::Persist,
            |reply| match reply {
                Reply::Held { state, sent } => Some((state, sent)),
                _ => None,
            },
        )?;
        let mut held = Held::default();
        for (client, (state, sent)) in all.into_iter().enumerate() {
            held.clients.push(state);
            held.sent.extend(sent.map(|sent| (client, sent)));
        }
        Ok(held)
    }

    fn sweep(&mut self, named: &[Stored]) {
        for entry in std::fs::read_dir(&self.folder).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            if name.starts_with("client-") && named.iter().all(|stored| stored.file != name) {
                std::fs::remove_file(self.folder.join(name)).unwrap();
            }
        }
    }
}
