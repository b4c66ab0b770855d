"""What people say for what tools call otherwise, area by area.

Files, git, code review, chat, browsers, databases, clusters, charts, memory, time and sums, processes,
the web, documents: the trades that most servers are of.
"""

from __future__ import annotations

SAID = """
    create directory: mkdir
    delete directory: rmdir
    delete, remove: rm, del, get rid, throw out, bin, trash can, expunge, no longer need, take away, strip, revoke, kick out
    move file, rename: mv, put into, relocate, rename to
    move: shift, transfer
    copy: cp
    list directory, list: ls, contents of folder, folder contents
    list processes: ps, what is running, what runs, eats cpu, task manager, busy, which programs, programs running
    read file: cat, type out, print file, look into, peek, contents of file, open file, last lines, first lines, top of file, end of file
    search, find: grep, hunt, look for, dig up, track down, where is, occurs, occurrence, mention, contains
    search files, search code: ripgrep, find in files, full text, source tree, todo comments
    fetch, request: curl, wget, http get, grab, load url
    size, sizes: du, disk usage, how big, how large, big, bigger, biggest, largest, heavy, room, space, take up, takes up, how much space, heavy files
    metadata, info: stat, last modified, modified on, created on, properties, when was, permissions, chmod
    directory tree: nested, subfolder, subdirectory, recursive listing, folder structure, hierarchy of folders
    directory: folder, subfolder, subdirectory, pwd, place
    edit file, edit: sed, replace text, change text, swap words, find and replace, change a line, tweak, correct
    read multiple files: several files, many files, all these files
    media file, image: photo, picture, audio, video file, jpeg, png
    allowed directories: may access, may touch, permitted, accessible folders, sandbox
    file: attachment, disk, notes
    create: new, brand new, set up, put together, compose, prepare, produce, start a new
    get: hand me, look up, pull up, what does, receive
    list, get: overview, which, inventory, what are, who are, everyone, everybody, all the, any, open
    save, store: persist, put away, back up, archive

    status: what changed, uncommitted, dirty, state of the repo, untracked
    diff, changes: changed, differ, differs, compare, touched, what is new, modifications, between, what is different, deviates
    log, history, commits: last commits, recent commits, who committed, history, changes over time, past changes, timeline, past commits, who committed, contributions, contributed
    blame: who wrote, who changed, who touched, last touched, last edited, authorship, annotate line, author of, responsible, introduced, whose code, which commit introduced
    stash: shelve, set aside, put aside, work in progress, wip, half finished, park, for later, temporarily, hide changes, keep for later, without losing, do not lose
    reset, clean, checkout, restore: throw away, discard, drop changes, start over, undo changes, not saved, unsaved, revert local
    reset: unstage, undo commit, undo a commit, roll back commit, uncommit, drop commit, take back, rewind, remove last commit, go back to commit, take out of staging
    clean: untracked files, tidy up, clear out, leftover, junk, artefacts, artifacts
    add: stage, staging, next commit, include in commit, prepare commit, pick for commit
    commit: check in, record changes, save changes, checkpoint, snapshot my work
    push: publish commits, publish my, share commits, send commits, upload commits, upstream, send to server, back up to remote
    pull, fetch: up to date, sync, synchronize, synchronise, catch up, update local, bring down, latest changes, get updates, newest changes, newest work, update from, latest from, refresh, upstream changes
    clone: copy of repository, local copy, check out repository, download repository, get the code, copy of code
    merge, rebase: combine branches, lines of development, integrate branch, join branches, bring together
    cherry pick: pick commit, apply commit, single commit, one commit, port commit, backport
    reflog: lost commit, recover commit, bad reset, dangling, deleted branch
    worktree: parallel folders, two branches, several checkouts, working copies
    checkout, switch branch: go to branch, change branch, move to branch, check out, jump to, switch to, older version, earlier version, previous version, go to commit
    tag: mark version, release version, label release, milestone version
    remote: origin, remote url
    init: new local repository, initialize repository, git repo here, empty repository, start a repository, begin a repository
    show: look at commit, what is in commit
    changelog: release notes, what happened since
    branch: line of development
    working tree: working copy, working directory

    pull request, merge request: prs, proposal, contribution, patch set, ask for review, propose changes, propose my
    create pull request: open a pr, open pr, submit changes, ask for my changes
    status checks, pull request status: ci, build passed, checks passed, green, pipeline, build status, tests pass
    pull request files: changed files, files changed, files touched
    review: approve, request changes, sign off, lgtm, code review, remark, reviewer
    create issue: file a bug, report a bug, open a ticket, raise a bug, complain, report a problem, open issue, bug report
    update issue: close issue, reopen, assign, label, mark as done, close ticket, looks after, take over ticket, in charge of
    issue: bug, ticket, defect, story, incident
    issues: bugs, tickets, defects, todos, backlog
    comment: remark, note on, reply on
    fork: make a copy of, own copy, copy of project
    repository: project, repo, codebase, code base
    search users: people, developers, contributors, who is, contributors, programmers, developers from
    search code: code search, where is it used, find usages
    create or update file: upload file to repo, change file in repo, put file into repo, file to the repo, commit a file

    post message: tell the team, announce, write in channel, drop a line, shout, say in, notify team, message the, ask on, ask the, ask somebody, ask in, write to, say hello, inform, let know, ping team, others know, tell others, tell everyone
    message: dm, text, chat, note to
    reply thread: answer in thread, answer someone, respond to message, follow up
    thread replies: answers to, replies to, discussion, responses
    channel history: what was said, who wrote, latest messages, recent messages, conversation so far, catch up, last messages, what happened in, read channel
    channels: rooms, groups, workspace channels
    users: everyone, everybody, members, teammates, colleagues, coworkers, staff, people, team, who is online, who is in, people in
    user profile: who is, contact details, email of, about user, teammate, colleague, coworker, job title, phone number of, email address, who is this
    reaction, emoji: thumbs up, thumbs down, react, smiley, emoticon, like, heart, plus one, acknowledge, applaud, clap

    navigate: go to, visit, open page, open site, load page, surf, browse, browse to, enter address, homepage
    navigate back: go back, step back, previous page, page before, back button
    new page, tabs: new tab, another tab, second tab
    tabs, list pages: open tabs, which tabs, open windows
    select page, tabs: switch tab, change tab, bring to front
    close page: close tab, shut the page
    click: hit, tap, push button, press button, push a button
    double click: open by clicking
    hover: mouse over, hold the mouse, point at, tooltip
    drag: pull, move element, slide
    drop: let go, drop files
    press key: keystroke, shortcut, hotkey, ctrl, enter key, escape, keyboard, hit enter, press enter
    fill, type: enter text, write into, put text, text box, text field, search box, input text, enter into, type in, enter in field, key in, put into field
    fill form: sign up, signup, register, registration, fill in, fill out, complete form, login form, sign in, log in
    select option: dropdown, drop down, pick from list, choose from, combo box, combobox, choose entry
    file upload, upload: attach file, choose file, send file to site
    handle dialog: popup, pop up, confirm, confirmation, alert box, accept dialog, dismiss, prompt box
    wait: until appears, appear, appears, disappear, ready, until, loaded
    screenshot: screen shot, capture page, photograph page, print screen, screen grab, screengrab, snap, full page image, shot, picture of page, photo of page, picture of site
    snapshot: accessibility tree, dom, page structure, elements on page, screen reader, blind, accessible
    screencast: film, video, record screen, screen recording, clip, movie
    evaluate, script: run javascript, execute javascript, run js, js code, console code
    console messages: console, javascript errors, js errors, warnings, exceptions, thrown, error messages, console output
    network requests: http requests, traffic, xhr, ajax, api calls, fired, network tab, requests made, status codes
    network request: response body, headers, single request, server answer, server respond, what came back
    resize: smaller, bigger window, window size, viewport, screen size, dimensions
    emulate: pretend, simulate, dark mode, light mode, mobile, phone, tablet, small screen, slow connection, offline, throttle, slow network, gps, user agent, spoof, dark colours, dark colors, slow phone, on a phone, as a tablet, pose as
    color scheme: dark mode, light mode, night mode, dark colours, dark colors
    performance: slow, slowly, speed, lag, laggy, load time, loading time, fast, web vitals, lcp
    performance trace: profile page, profiling, record performance, trace, why slow
    lighthouse audit: seo, accessibility audit, best practices, score page, standards, page quality
    heap snapshot: memory leak, leaks, memory usage of page, eats memory, eat memory
    css styles: css, styling, style, font, fonts, colour, color of, look of element, stylesheet, margin, padding
    form: registration
    browser: web page, site, website

    query: sql, select, ask the database, look up in database, statement, question
    write query: insert, insert rows, add a record, add record, add row, update rows, delete rows, remove rows, change rows, modify data, store a row
    create table: new table, set up a table, define table, ddl
    describe table, columns: schema, columns, fields, structure of table, which columns, attributes, column types
    list tables: tables, what tables, which tables
    list databases: databases, which databases, dbs, catalogs
    insight: finding, business insight, takeaway

    kubernetes: k8s, kube, cluster, pod, pods, namespace, deployment, workload, container
    get: describe resource, show pods
    logs: log output, stdout, what did it print, log lines, crash log
    describe, logs: crash, crashing, crashed, went wrong, wrong, failing, troubleshoot, debug, fails, why does, keep crashing, events, happened to, what is wrong
    apply: manifest, yaml, roll out file, deploy
    patch: change image, update image, change field, set field
    scale: replicas, more copies, more instances, handle load, autoscale, fewer copies, size up
    rollout: restart deployment, restart, roll back, rollback, previous revision, undo deployment, redeploy, bounce, undo rollout, bad rollout, bad release, bad deploy
    exec pod, exec: get into, inside container, into the container, in the pod, inside the pod, ssh into, shell in, run inside, enter container, get into container, log into, open shell, shell inside
    port forward: tunnel, localhost, local port, reach service, expose locally, from my laptop, access service
    context: switch cluster, which cluster, change cluster, staging cluster, current cluster
    explain: what fields, field documentation, documentation of resource, meaning of field, which fields
    node management: drain, cordon, evict, maintenance, take node out
    install helm chart: helm install, new release
    upgrade helm chart: helm upgrade, new version of release
    uninstall helm chart: helm delete, remove release, finished release, undeploy
    api resources: crds, kinds of resources, resource types
    ping: alive, reachable, respond, responsive, heartbeat

    chart: plot, draw, picture of, visual, visualise, visualize, figure, diagram
    pie chart: share, shares, proportion, splits, split among, breakdown, divided, circle, percentage of each
    bar chart, column chart: bars, ranking, compare categories, per category, comparison, sales per, top ten
    line chart: over time, trend, evolution, development, growth, per month, monthly, daily, time series, course
    area chart: cumulative trend, stacked over time, total over, cumulative
    histogram: distribution, frequency, buckets, bins, spread of, how often
    scatter chart: correlation, relationship between two, depend, depends, versus, related, against each other
    boxplot: quartiles, outliers, median, spread, box plot, whiskers
    violin: density, shape of distribution
    radar chart: strengths, weaknesses, skills, attributes, competencies, dimensions, spider chart, profile of, abilities, several criteria, compare by, across criteria, rate several, safety and comfort
    funnel chart: conversion, drop out, drop off, drops out, stages of sale, customer journey, lose customers, buyers
    sankey chart: flows from, flow between, flows, money flows, energy flow, where does it go, from to
    treemap: nested share, share of nested, hierarchical share, rectangles
    venn chart: overlap, overlaps, intersection, in common, both groups, shared by
    waterfall chart: gains and losses, gains, losses, came together, contributions, profit bridge, adds up
    liquid chart: gauge, full, level, progress, tank, percent, fill level, single percentage, how far
    dual axes chart: two axes, two y axes, two scales, bars and line, second axis, different units
    word cloud: tag cloud, frequent words, common words, keywords, most used words
    organization chart: org chart, who reports, reports to, boss, managers, chain of command, team structure, departments, company structure, org
    mind map: brainstorm, brainstorming, ideas, idea, topics, sub topics, subtopics, thoughts, branches out
    fishbone: root cause, causes, cause and effect, ishikawa, fish, reasons for problem
    flow diagram: flowchart, flow chart, workflow, process steps, decision, procedure, approval process, steps of, before and after, process map, step by step plan
    network graph: connections, who knows whom, links between, relationships between people, social network
    path map: route, itinerary, trip, journey, travel, directions, way from, tour
    pin map: dots on a map, markers, mark places, cities, locations, points on a map, places, addresses on a map
    district map: regions, provinces, states, countries, districts, by region, choropleth, heat map, administrative
    spreadsheet: excel, xls, pivot, pivot table, csv, sheet, table of data, tabular, grid

    entities: person, people, customer, friend, someone, company
    create entities: remember, memorize, memorise, new fact, keep in mind, learn
    add observations: remember that, remember, note that, prefers, fact about, likes, additional fact, keep in mind
    create relations: works for, knows, connect two, link two, belongs to, is married, related to, friend of, lives in, part of, married to, colleague of
    search nodes: recall, what do i know, already know, known about, look up memory, know about, what do you know, remember about
    read graph: everything you know, all you know, whole memory, whole graph, dump memory, connected to each other, who is connected, how are related
    delete entities: forget, forget everything, erase person
    delete observations: forget that, wrong fact, remove fact, remove note, wrong statement, no longer true, correct what you remember, remove from memory
    thinking: think, reason, ponder, step by step, step after step, think through, break down, puzzle, hard problem, reflect, deliberate

    current time: what time, clock, right now, noon, time is it, now
    convert time: time difference, time zones, timezones, abroad, noon, meeting, pm, o clock, what time is that, when it is, same time in
    calculate: plus, minus, times, divided, multiplied, multiply, divide, subtract, arithmetic, percent of, equation, math, maths, square root, work out, add up, adds
    sum: total, plus, add numbers, add up
    environment variables: env, printenv
    gzip: compress, zip, archive, shrink, squeeze, less space, smaller file, pack

    process: program, application, app, job
    start process: run a command, shell command, run command, run a program, execute command, launch program, command line, bash, terminal command, script, start program
    kill process, terminate: stop process, end process, hangs, hung, stuck, freeze, frozen, force quit, shut down, not responding, no longer reacts, does not react, unresponsive
    interact process: type into, send input, repl, prompt, answer prompt, running shell
    process output: what did it print, printed, output of command, so far, what has it printed
    system info: hardware, machine, laptop, computer, uptime, operating system, hostname, ram, cpu, running hot, temperature, server health, load average
    config value: setting, preference, option, configure
    usage: statistics, how often used
    feedback: opinion, rate, complain about
    lint: code style, style check, quality of code, linter, static analysis, coding errors, check code, formatting

    fetch, scrape, extract: article, text of page, content of page, read website, read url, on the internet, web content, what it says, text of an article, plain text, text from page, text of a page, copy the text, read the page, read this page
    search web: google, bing, internet search, online, on the internet, news, look it up online, current events, latest news, find out, look up online, facts about, latest on
    crawl: all pages, whole site, entire site, every page, spider
    map: all urls, list of urls, site map, sitemap, site structure, links on site, map out
    research: report with sources, comprehensive, in depth, investigate, deep dive, thorough, study
    extract: structured data, pull data, get data out of
    monitor: watch for changes, whenever changes, keep an eye, alert me, email me, competitor, price change, changes on page, notify me, track page, warn me, tell me when, let me know when, as soon as, when something changes, something new on
    delete monitor: stop watching, stop monitoring, no more alerts
    crawl status: crawl finished, is the crawl, crawl done
    parse: document to markdown, pdf to markdown, turn into markdown, convert document, docx
    papers: paper, study, studies, preprint, arxiv, scientific, science, academic, literature, journal, publications, scholarly, scientists, researchers
    related papers: citing, cites, cited by, build upon, similar papers, builds on
    credit usage: credits, balance, credits left, quota left, money left, remaining, used this month, plan limits, tokens used
    documentation, docs: manual, tutorial, how to use, guide, reference, sdk, readme, api docs, examples, how does it work, usage of
    library: package, framework, module, npm, pip, pypi, dependency, lib

    page: document, wiki, notebook, article, note
    retrieve page: show page, open page, read page, on this page, content of page
    update page: rename page, change title, archive page, put in the bin, hide page, icon, properties, old page, retire page
    append block: add paragraph, paragraph, below the heading, bullet, add text to page, add section, insert text
    block: paragraph, bullet, section
    create page: new page, add a page, new entry, add a row, new row, add entry, write up
    data source: database, table, expenses, records
    comments: remarks, discussion on page
    self: who am i, whoami, my account, my identity, bot, own user
    move page: other parent, under another page
    template: blueprint, boilerplate

    pdf: document, contract, invoice
    annotate: highlight, stamp, underline, sign, mark up, circle text, annotation, markup
    display pdf: open pdf, show pdf, open document, view document, viewer
    write pdf: create pdf, make pdf, pdf report, generate pdf, save as pdf
    read: aloud, chapter, look at

    email, mail, message: e mail, letter, inbox, mailbox, write to, write someone
    attachment: enclosed, enclosure
    reply, automatic reply: on holiday, on vacation, out of office, absence, absent
    unsubscribe, block: spam, junk, no more mail
    event, calendar: appointment, meeting, date with, book, invite, schedule
    free, availability: get together, get everyone together, when could, when can we, available, find a time, free time, busy
    respond, decline: say no, say yes, rsvp, accept invitation, turn down, can not come
    reminder, task: remind, remember to, todo, to do
    contact, customer: client, buyer, person, lead, prospect, address book
    deal, opportunity: sale, contract, negotiation
    merge: duplicate records, in our list twice, same person
    invoice: bill, charge for, bill the
    refund: money back, give back, reimburse, pay back
    payment, charge: pay, checkout, debit, transaction
    subscription: plan, membership
    balance: how much money, funds
    order, cart: purchase, buy, shopping
    object, bucket: cloud storage, s3, blob
    link, presign, share: share a file, share with, give access, temporary access
    image, container: docker image, dockerfile
    prune, clean: clear out, free space, eat up disk, unused
    alert, alarm: warning, incident, page me
    silence, mute: shut up, quiet, snooze
    dashboard, graph: panel, board
    exception, error, trace: stack trace, crash report, crashes, bug report
    run, workflow, pipeline: build, ci, github action, job, deployment
    rerun, retry: again, try again, once more
    cancel: abort, call off
    transition, status: move to done, close, resolve, mark as, finish, is done
    worklog, log time: hours, time spent, timesheet, book hours
    directions, route: get from, way to, how do i get, drive to, navigate to
    place, search: restaurant, shop, hotel, near me, nearby, sight
    geocode, coordinates: latitude of, where is, lat long
    turn on, on: switch on, light up
    turn off, off: switch off, lights out
    thermostat, temperature: warmer, colder, heating, cooler, heat, degrees
    lock: shut the door, unlock
    play: listen to, put on song, music
    playlist: mix, compilation
    volume: louder, quieter, loud, sound
    transcribe, speech: write down, what was said, recording, dictation, subtitles, minutes of
    synthesize, voice: read aloud, read out, speak, say aloud
    ocr, recognise text, text picture: words on photo, words on this, read a scan, scanned
    background: cut out, backdrop
    convert, format: turn into, turn these, change format
    translate, language: translation, other language, in english
    forecast, weather: umbrella, tomorrow, rain, sunny, snow, temperature outside
    record, dns: domain, subdomain, nameserver
    rotate: renew, replace credential
    deploy, release: ship, roll out, go live
    secret: credential, password, api key
    multiple, single commit: one go, in one go, at once, in bulk, several

    library documentation, library: react, vue, angular, svelte, django, flask, fastapi, express, spring, rails, laravel, numpy, pandas, tailwind, nextjs, pytorch, tensorflow, langchain, middleware, hook, hooks, sdk
    helm chart, kubernetes: grafana, prometheus, ingress, argocd, istio
    emulate, resize: iphone, ipad, android, smartphone, retina, touch screen, landscape, portrait
    timezone, time: utc, gmt, cet, est, pst, tokyo, london, paris, berlin, york, sydney, delhi, beijing, dubai, singapore
    files, image: jpeg, jpegs, jpg, png, pngs, gif, screenshots, photos, pictures
    files: pdfs, mp3, docx, csvs, logs, sources, scripts
    web search, search: google, bing, duckduckgo, election, weather today, stock market
    issues: tracker, backlog, kanban, jira, todo list, open points, complaints, bug reports
    replicas, scale: workers, capacity, copies of service, more power
    drag: slider, swipe, handle
    config, blocked: allow, forbid, forbidden, disallow, ban, permit
    query, sql: customers, orders, sales, invoices, purchases, employees, products, statistics of, average, sum of
    write query: correct, wrong value, fix value, change value
    databases: data sets, datasets, schemas, attached
    delete, remove: no longer, not any more, any longer, cancel out
    line chart: years, decade, decades, developed, developing, curve, history of values
    treemap: boxes, rectangles, nested
    spreadsheet: totals, subtotals, sums per, rows and columns
    logs: writes, written by, prints
    lint: clean, messy, tidy code, sloppy, warnings in code, code smell
    network request: server reply, server replied, server returned, answered by server
    form: login, password, username, credentials, sign up form
    handle dialog: really want, are you sure, asks whether, confirmation question
    allowed directories: allowed to read, allowed to write, may i read, may i write, permitted folders
    create issue: something is broken, does not work, tell the maintainers, let maintainers know
    pull request review: feedback on code, look over code, second pair of eyes
    search files: locate, find all, all files
    user profile: phone number, job title, contact of
    sessions: shells, consoles, terminals
"""
"""Each line: what tools call it, the likeliest first, and what people say."""
